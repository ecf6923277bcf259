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

// A table on a stream that was opened at time 0 with V = 3 s.
class LockTableTest : public ::testing::Test {
 protected:
  LockTableTest() {
    table_.OnStarted(0);
    Say("opened { validity { seconds: 3 } heartbeat_interval { seconds: 1 } }");
    Drain();
  }

  LeasePtr Acquire(const std::string& key, std::optional<Duration> max_wait = std::nullopt) {
    const LeasePtr lease = table_.Acquire(MakeSpec(key, {}), max_wait, Answering(), now_, fx_);
    Settle();
    return lease;
  }

  // Returns the first lease; the others have the ids that follow.
  LeasePtr AcquireAll(const std::vector<std::string>& keys, std::optional<Duration> max_wait = std::nullopt) {
    std::vector<std::shared_ptr<const Spec>> specs;
    for (const std::string& key : keys) specs.push_back(MakeSpec(key, {}));
    std::vector<LockCallback> callbacks(keys.size(), Answering());
    const LeasePtr first = table_.AcquireAll(specs, max_wait, std::move(callbacks), now_, fx_);
    Settle();
    return first;
  }

  void Say(const std::string& text) {
    v1::SessionEvent event;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &event)) << text;
    table_.OnEvent(event, now_, fx_);
    Settle();
  }

  void Grant(const LeasePtr& lease, int64_t echo_seq = 0, int64_t valid_for_ms = 3000) {
    Grant(lease->id, echo_seq, valid_for_ms);
  }

  void Grant(int64_t id, int64_t echo_seq = 0, int64_t valid_for_ms = 3000) {
    Say("id: " + std::to_string(id) + " granted { fencing_token: 7 echo_seq: " + std::to_string(echo_seq) +
        " valid_for { seconds: " + std::to_string(valid_for_ms / 1000) +
        " nanos: " + std::to_string(valid_for_ms % 1000 * kMs) + " } }");
  }

  void TickAt(int64_t now_ns) {
    now_ = now_ns;
    table_.Tick(now_, fx_);
    Settle();
  }

  // The commands to send, e.g. "acquire 2", "acquire 3 of 5", "heartbeat 1".
  std::vector<std::string> Drain() {
    std::vector<std::string> sent;
    while (std::unique_ptr<Batch> batch = table_.Pack(now_)) {
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
      table_.Recycle(std::move(batch));
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
    for (auto& [callback, refusal] : fx_.downgraded) {
      if (callback) callback(refusal);
    }
    for (auto& stop : fx_.stopped) stop.request_stop();
    fx_.Clear();
  }

  LockCallback Answering() {
    return [this](Result<Guard> result) {
      answers_.push_back(result.ok() ? "granted" : std::string(Name(result.refusal().reason)));
    };
  }

  using Strings = std::vector<std::string>;

  int64_t now_ = 0;
  Effects fx_;
  LockTable table_{{.address = "nowhere",
                    .label = "test",
                    .unreachable_timeout_ns = 10'000 * kMs,
                    .connect_timeout_ns = 5000 * kMs,
                    .reissue_waits = true}};
  Strings answers_;
  std::map<int64_t, LeasePtr> held_;  // granted leases, also those that have ended
};

}  // namespace distlock::internal
