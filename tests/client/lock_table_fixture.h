// SPDX-License-Identifier: Apache-2.0
//
// A lock table on a stream; the test plays the broker. Single-threaded; only the test moves the time.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock_table.h"

namespace distlock::internal {
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kV = 3000 * kMs;
// The links of a table whose broker drains.
inline constexpr int kFormer = 0;
inline constexpr int kNext = 1;

// A table on a stream that was opened at time 0 with V = 3 s.
class LockTableTest : public ::testing::Test {
 protected:
  LockTableTest() : LockTableTest(1) {}
  explicit LockTableTest(size_t brokers) : brokers_(brokers) {
    Start();
    Say(kOpened);
    Drain();
  }

  // The session of the present link begins.
  void Start(const std::optional<ProcessClaim>& claim = std::nullopt) {
    table_.OnStarted(now_, claim, std::nullopt, fx_);
    Settle();
  }

  void Break(int link = 0, const std::optional<Refusal>& failure = std::nullopt,
             EndCause cause = EndCause::kDisconnected) {
    table_.OnBroken(cause, "cut", failure, now_, fx_, link);
    Settle();
  }

  LeasePtr Acquire(const std::string& key, std::optional<Duration> max_wait = std::nullopt, LockOptions options = {}) {
    return Ask({MakeSpec(key, std::move(options))}, max_wait);
  }

  // Returns the first lease; the others have the ids that follow.
  LeasePtr AcquireAll(const std::vector<std::string>& keys, std::optional<Duration> max_wait = std::nullopt) {
    std::vector<SpecPtr> specs;
    for (const std::string& key : keys) specs.push_back(MakeSpec(key, {}));
    return Ask(specs, max_wait);
  }

  // Null when it is answered at once.
  LeasePtr Ask(const std::vector<SpecPtr>& specs, std::optional<Duration> max_wait) {
    const auto answered = [this, size = specs.size()](Result<Leases> answer) {
      const std::string said = answer.ok() ? "granted" : std::string(Name(answer.refusal().reason));
      answers_.insert(answers_.end(), size, said);
      if (!answer.ok()) return;
      for (const LeasePtr& lease : *answer) held_[lease->id] = lease;
    };
    const RequestPtr request = table_.Acquire(specs, max_wait, answered, now_, fx_);
    const LeasePtr first = request->leases.empty() ? nullptr : request->leases.front();
    Settle();
    return first;
  }

  void Cancel(const LeasePtr& lease) {
    if (lease->request != nullptr) table_.Cancel(*lease->request, fx_);
    Settle();
  }

  void Say(const std::string& text, int link = 0) {
    v1::SessionEvent event;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &event)) << text;
    table_.OnEvent(event, now_, fx_, link);
    Settle();
  }

  void Grant(const LeasePtr& lease, int64_t echo_seq = 0, int64_t valid_for_ms = 3000) {
    Grant(lease->id, echo_seq, valid_for_ms);
  }

  void Grant(int64_t id, int64_t echo_seq = 0, int64_t valid_for_ms = 3000) {
    SayGranted(id, 0, echo_seq, valid_for_ms);
  }

  void SayGranted(int64_t id, int link, int64_t echo_seq = 0, int64_t valid_for_ms = 3000) {
    const std::string number = std::to_string(id);
    Say("id: " + number + " granted { fencing_token: 7 lease_id: 'lease-" + number +
            "' echo_seq: " + std::to_string(echo_seq) + " valid_for { seconds: " + std::to_string(valid_for_ms / 1000) +
            " nanos: " + std::to_string(valid_for_ms % 1000 * kMs) + " } }",
        link);
  }

  void TickAt(int64_t now_ns) {
    now_ = now_ns;
    table_.Tick(now_, fx_);
    Settle();
  }

  // The next message; empty when there is none.
  v1::SessionRequest Packed(int link) {
    v1::SessionRequest message;
    table_.Pack(now_, link, message);
    return message;
  }

  // The commands to send, e.g. "acquire 2", "acquire 3 of 5", "heartbeat 1", "adopt 4: lease-2 as request 1".
  std::vector<std::string> Drain(int link = 0) {
    std::vector<std::string> sent;
    for (v1::SessionRequest message; table_.Pack(now_, link, message); message.Clear()) {
      for (const v1::SessionCommand& c : message.commands()) {
        switch (c.command_case()) {
          case v1::SessionCommand::kOpen:
            sent.push_back("open");
            break;
          case v1::SessionCommand::kAcquire: {
            const int locks = c.acquire().locks_size();
            sent.push_back("acquire " + std::to_string(c.id()) + (locks == 1 ? "" : " of " + std::to_string(locks)));
            break;
          }
          case v1::SessionCommand::kRelease:
            sent.push_back(
                (c.release().lapsed() ? "lapsed " : "release ") +
                (c.release().lease_id().empty() ? std::to_string(c.release().acquire_id()) : c.release().lease_id()));
            break;
          case v1::SessionCommand::kCancel:
            sent.push_back("cancel " + std::to_string(c.cancel().acquire_id()));
            break;
          case v1::SessionCommand::kAdopt: {
            const v1::AdoptLease& adopt = c.adopt();
            sent.push_back("adopt " + std::to_string(c.id()) + ": " + adopt.lease_id() + " as " + adopt.request_id() +
                           (adopt.lock().mode() == v1::LOCK_MODE_SHARED ? ", shared" : "") +
                           (adopt.hold_count() > 0 ? ", " + std::to_string(adopt.hold_count()) + " holds" : ""));
            break;
          }
          case v1::SessionCommand::kHeartbeat:
            sent.push_back("heartbeat " + std::to_string(c.heartbeat().seq()));
            break;
          case v1::SessionCommand::kGoodbye:
            sent.push_back("goodbye");
            break;
          case v1::SessionCommand::kDowngrade:
            sent.push_back("downgrade " + std::to_string(c.downgrade().acquire_id()));
            break;
          default:
            sent.push_back("nothing");
        }
      }
    }
    return sent;
  }

  // Runs the effects, as the Engine does when its mutex is free.
  void Settle() { std::exchange(fx_, {}).Run({}); }

  using Strings = std::vector<std::string>;

  static constexpr char kOpened[] =
      "opened { validity { seconds: 3 } heartbeat_interval { seconds: 1 } features: 'adopt' }";

  const size_t brokers_;
  std::vector<int64_t> drains_;  // what the program was told of a drain
  int requests_ = 0;
  int64_t now_ = 0;
  Effects fx_;
  LockTable table_{{.address = "nowhere",
                    .brokers = brokers_,
                    .label = "test",
                    .unreachable_timeout_ns = 10'000 * kMs,
                    .connect_timeout_ns = 5000 * kMs,
                    .on_draining = [this](Duration left) { drains_.push_back(left.count()); },
                    .random_id = [this] { return "request " + std::to_string(++requests_); }}};
  Strings answers_;
  std::map<int64_t, LeasePtr> held_;  // granted leases, also those that have ended
};

}  // namespace distlock::internal
