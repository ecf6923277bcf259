// SPDX-License-Identifier: Apache-2.0
//
// The store of a primary that Sentinels watch: the view of the sentinels says where the primary is, and one node
// follows it. Locks need the primary alone: while it works, the sentinels may be gone.
//
// Thread: the loop's, as Store says. After Stop both networks must go on until what they have under way is over.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/store_traits.h"
#include "store/redis/server_node.h"
#include "store/sentinel/sentinel_link.h"
#include "store/sentinel/sentinel_view.h"
#include "store/store.h"

namespace distlock::store {

class SentinelStore : public Store, private ServerNode::Owner, private SentinelLink::Owner {
 public:
  // The primary has all locks and all subscribers.
  static constexpr core::StoreTraits kTraits{
      .takes_many_at_once = true, .counts_listeners = true, .can_fail_over = true};

  // `network` leads to the primary, `sentinels` to the sentinels: each has its own TLS.
  SentinelStore(const Network& network, const Network& sentinels, const StoreOptions& options);
  ~SentinelStore() override { Stop(); }

  void Start(StoreListener* listener) override;
  void Submit(core::StoreCommand&& command) override { node_.commands().Submit(std::move(command)); }
  void Flush() override { node_.commands().Flush(); }
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done) override {
    node_.queries().Inspect(name, max_waiters, timeout, std::move(done));
  }
  void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size, std::string page_token,
            core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done) override {
    node_.queries().List(escaped_namespace, escaped_key_prefix, page_size, page_token, timeout, std::move(done));
  }
  bool AllServersAreUp() const override { return node_.up(); }
  void Stop() override;

 private:
  struct Peer {
    ServerAddress address;
    std::unique_ptr<SentinelLink> link;
    std::string cause;     // why it cannot be asked, "" when it can
    std::string reported;  // the last problem that the log has, "" since it was up
    SetFacts facts;        // of its last answer; the replicas of the last answer that had them
  };

  void OnNodeInput(core::Input&& input) override;
  void OnSentinelUp(SentinelId id) override;
  void OnSentinelDown(SentinelId id, const absl::Status& why) override;
  void OnSentinelReport(SentinelId id, SentinelReport report, SetFacts facts) override;
  void OnSentinelNames(SentinelId id, std::vector<std::string> known) override;
  void OnSentinelMute(SentinelId id, const std::string& why) override;
  void OnSwitchMaster(SentinelId id) override;

  void Step(const SentinelView::Input& input);
  void Perform(const SentinelView::Effect& effect);
  void Dial(const SentinelView::Dial& dial);
  void Drop(SentinelId id);
  void Follow(const SentinelView::PrimaryAt& primary);
  absl::Status Judge(const SetFacts& facts);
  void TellWrongName(const std::vector<std::string>& known);
  void SetTimer();
  // Those of the node, whose status the sentinels' part is added to.
  StoreOptions NodeOptions();
  // Why no primary is known yet, for people.
  std::string WhyNotReady() const;
  void TellWhyNotReady();
  void Report(const absl::Status& why);
  void Warn(const std::string& text);

  // Const after construction.
  const StoreOptions options_;
  const Network sentinel_network_;

  StoreListener* listener_ = nullptr;  // null before Start and after Stop
  SentinelView view_;
  std::map<SentinelId, Peer> peers_;
  std::vector<std::unique_ptr<SentinelLink>> ended_;  // destroyed by timer_, outside of their own callbacks
  std::optional<ServerAddress> primary_;              // where the node is
  uint64_t epoch_ = 0;                                // of that choice
  std::optional<SentinelView::PrimaryAt> unfit_;      // the first choice, while its replicas are not as they must be
  std::string told_unfit_;
  std::string told_why_not_;
  const std::unique_ptr<Timer> timer_;
  ServerNode node_;
};

}  // namespace distlock::store
