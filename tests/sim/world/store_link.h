// SPDX-License-Identifier: Apache-2.0
//
// A broker's two connections to the store, with the production's encoding, decoding and script loading: what
// store::SingleStore does with sockets, done with wires. Reconnects with back-off.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/redis/command_sender.h"
#include "store/redis/link.h"
#include "store/redis/script_batch.h"
#include "store/redis/script_caller.h"
#include "world/store_process.h"
#include "world/wire.h"

namespace distlock::sim {

class StoreLink : private store::CommandSender {
 public:
  // `primary`: the server that the store's address leads to now.
  StoreLink(Env& env, Process& broker, std::function<StoreProcess&()> primary, store::LockOptions options,
            std::function<void(core::Input)> tell);
  ~StoreLink() override;

  void Start() { Subscribe(); }
  void Submit(core::StoreCommand command);
  const WirePtr& command_wire() const { return wire_; }
  const WirePtr& channel_wire() const { return channel_; }
  bool up() const { return up_; }

 private:
  struct Pending {
    uint64_t number;
    Done done;
  };

  void Send(std::string_view command, Done done) override;
  void Flush() override {}
  void SendSoon();
  void OnAnswer(const store::SentCommand& sent, const store::Answer& answer);
  void Connect();
  void Prepare();
  void OnReply(uint64_t connection, const store::ReplyPtr& reply);
  void Drop(const std::string& cause);
  void Reject(Done done, std::string cause);
  void ExpectAnswer();
  void AwaitAnswer(Duration delay);
  void CheckSilence(Instant due);
  void Reconnect();
  void Subscribe();
  void OnChannelUp(uint64_t life);
  void Ping(uint64_t life);
  void LoseChannel();
  Duration BackOff(int& failures);
  void CountRefusal();

  Env& env_;
  Process& broker_;
  const std::function<StoreProcess&()> primary_;
  const store::Codec codec_;
  const std::function<void(core::Input)> tell_;
  store::ScriptCaller scripts_;
  store::ScriptBatch batch_;
  bool gathers_ = false;  // and is going to send

  // The command connection. `life_` tells this one from those before.
  WirePtr wire_;
  uint64_t life_ = 0;
  int connection_ = 0;
  StoreProcess* store_ = nullptr;
  bool up_ = false;
  bool first_ = true;
  int failures_ = 0;
  std::deque<Pending> pending_;
  std::string cause_ = "not connected yet";
  Instant refusals_since_{};
  int refusals_ = 0;
  size_t asked_ = 0;  // leases then

  WirePtr channel_;
  uint64_t channel_life_ = 0;
  int channel_failures_ = 0;
  bool channel_answered_ = true;
  bool started_ = false;

  Instant quiet_since_{};  // the last reply, or the first command behind which nothing was pending
  bool awaits_ = false;    // CheckSilence is due
};

}  // namespace distlock::sim
