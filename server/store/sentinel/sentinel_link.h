// SPDX-License-Identifier: Apache-2.0
//
// The connections to one sentinel: one that is asked, and one that listens for +switch-master. Both are kept alive for
// ever. The subscription is a hint, so its loss is no trouble: after each new one the sentinel is asked.
//
// Thread: the loop's. The owner outlives it, and may Stop it from within a callback but not destroy it there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "store/redis/link.h"
#include "store/redis/transport.h"
#include "store/sentinel/sentinel_answer.h"
#include "store/sentinel/sentinel_view.h"

namespace distlock::store {

class SentinelLink : private Link::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnSentinelUp(SentinelId id) = 0;
    // Also for an attempt that failed.
    virtual void OnSentinelDown(SentinelId id, const absl::Status& why) = 0;
    // Each Ask is answered by one of the next three, unless OnSentinelDown comes first.
    virtual void OnSentinelReport(SentinelId id, SentinelReport report, SetFacts facts) = 0;
    virtual void OnSentinelNames(SentinelId id, std::vector<std::string> known) = 0;
    virtual void OnSentinelMute(SentinelId id, const std::string& why) = 0;
    virtual void OnSwitchMaster(SentinelId id) = 0;
  };

  SentinelLink(const Network& network, SentinelId id, const LinkOptions& options, std::string primary_name,
               Owner* owner);

  void Start();
  void Ask();
  // The next Ask asks for the replicas, too, which is otherwise done by one of ten.
  void AskForReplicas() { asks_ = 0; }
  void Stop();

 private:
  struct Asked;
  // The listening connection.
  class Subscription : private Link::Owner {
   public:
    Subscription(const Network& network, LinkOptions options, SentinelLink& of);
    void Start() { link_.Start(); }
    void Stop();

   private:
    void OnLinkConnected() override;
    void OnLinkDown(const absl::Status& why) override;
    void OnLinkPush(const redisReply& push) override;
    void Ping();

    SentinelLink& of_;
    Link link_;
    const std::unique_ptr<Timer> ping_timer_;
  };

  void OnLinkConnected() override;
  void OnLinkDown(const absl::Status& why) override;
  void Finish(const Asked& asked);
  // The user may not ask, or must log in.
  void Denied(const std::string& text);

  const SentinelId id_;
  const std::string name_;
  SentinelLink::Owner* const owner_;
  int asks_ = 0;  // of this connection, since the last AskForReplicas
  Link link_;
  Subscription subscription_;
};

}  // namespace distlock::store
