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
    table_.OnStarted(0);
    Say(kOpened);
    Drain();
  }

  LeasePtr Acquire(const std::string& key, std::optional<Duration> max_wait = std::nullopt, LockOptions options = {}) {
    const LeasePtr lease = table_.Acquire(MakeSpec(key, std::move(options)), max_wait, Answering(), now_, fx_);
    Settle();
    return lease;
  }

  // Returns the first lease; the others have the ids that follow.
  LeasePtr AcquireAll(const std::vector<std::string>& keys, std::optional<Duration> max_wait = std::nullopt) {
    std::vector<std::shared_ptr<const Spec>> specs;
    for (const std::string& key : keys) specs.push_back(MakeSpec(key, {}));
    std::vector<LockCallback> callbacks;
    for (size_t i = 0; i < keys.size(); ++i) callbacks.push_back(Answering());
    const LeasePtr first = table_.AcquireAll(specs, max_wait, std::move(callbacks), now_, fx_);
    Settle();
    return first;
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

  // The commands to send, e.g. "acquire 2", "acquire 3 of 5", "heartbeat 1", "adopt 4: lease-2 as request 1".
  std::vector<std::string> Drain(int link = 0) {
    std::vector<std::string> sent;
    while (std::unique_ptr<Batch> batch = table_.Pack(now_, link)) {
      for (const v1::SessionCommand& c : batch->message().commands()) {
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
            sent.push_back((c.release().lapsed() ? "lapsed " : "release ") + std::to_string(c.release().acquire_id()));
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
      table_.Recycle(std::move(batch), link);
    }
    return sent;
  }

  // Records the effects, which the Core would run after its mutex; guards cannot be made without a Core.
  void Settle() {
    answers_.insert(answers_.end(), fx_.granted.size(), "granted");
    for (auto& [lease, callback] : fx_.granted) held_[lease->id] = lease;
    for (auto& [callback, refusal] : fx_.refused) callback(Result<Guard>(refusal));
    for (auto& [callback, outcome] : fx_.released) {
      if (callback) callback(outcome);
    }
    for (auto& [callback, refusal] : fx_.changed) {
      if (callback) callback(refusal);
    }
    for (auto& stop : fx_.stopped) stop.request_stop();
    if (fx_.draining) drains_.push_back(fx_.draining->count());
    fx_.Clear();
  }

  LockCallback Answering() {
    return [this](Result<Guard> result) {
      answers_.push_back(result.ok() ? "granted" : std::string(Name(result.refusal().reason)));
    };
  }

  using Strings = std::vector<std::string>;

  static constexpr char kOpened[] =
      "opened { validity { seconds: 3 } heartbeat_interval { seconds: 1 } features: 'adopt' }";

  const size_t brokers_;
  int requests_ = 0;
  int64_t now_ = 0;
  Effects fx_;
  LockTable table_{{.address = "nowhere",
                    .brokers = brokers_,
                    .label = "test",
                    .unreachable_timeout_ns = 10'000 * kMs,
                    .connect_timeout_ns = 5000 * kMs,
                    .reissue_waits = true,
                    .random_id = [this] { return "request " + std::to_string(++requests_); }}};
  Strings answers_;
  std::vector<int64_t> drains_;       // what the program was told of a drain
  std::map<int64_t, LeasePtr> held_;  // granted leases, also those that have ended
};

}  // namespace distlock::internal
