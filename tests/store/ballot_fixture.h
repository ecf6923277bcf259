// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the ballot's tests: the ballot between a core and three servers that answer when, and what, the test
// says. One thread.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "store/redlock/ballot/ballot.h"
#include "store/redlock/ballot/merge.h"
#include "store/redlock/ballot/place.h"

namespace distlock::store::ballot {
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr size_t kServers = 3;
inline constexpr uint64_t kToken = 1'000'000'900'000;
inline constexpr Place kLate = 2'000'000'000'000;

inline OwnerId OwnerOf(uint8_t n) { return {n}; }
inline LockName TheLock() { return LockName::Encode("default", "k"); }

// A copy of a command may come late, when the owner has been given something else. So each command says what it means,
// by a token or by marks, and what takes a vote says until when it may.
struct ExpectBound {
  Instant now;

  void Until(Instant run_before) const {
    EXPECT_GT(run_before, now);
    EXPECT_LE(run_before, now + milliseconds(500));
  }
  static void Named(const Marks& marks) { EXPECT_FALSE(marks.empty()); }

  void operator()(const AskVote& in) const {
    Until(in.run_before);
    Named(in.marks);
    EXPECT_LE(in.marks.first, in.spec.mark);
    EXPECT_EQ(in.marks.last, in.spec.mark);
  }
  void operator()(const ConfirmVote& in) const {
    EXPECT_NE(in.token, 0u);
    Named(in.marks);
  }
  void operator()(const JoinGrant& in) const {
    EXPECT_NE(in.token, 0u);
    EXPECT_GE(in.greatest, in.token);
    Until(in.run_before);
  }
  void operator()(const YieldVote& in) const {
    EXPECT_NE(in.token, 0u);
    Named(in.marks);
  }
  void operator()(const ReleaseNamed& in) const { EXPECT_TRUE(in.token != 0 || !in.marks.empty()); }
  // As the core has bound it: tests/core.
  void operator()(const Plain&) const {}
};

class BallotTest : public testing::Test {
 protected:
  explicit BallotTest(const Config& config = {}) : ballot_(config) {
    for (NodeIndex node = 0; node < kServers; ++node) {
      ServerClock clock(500);
      clock.Learn(now_, now_, TimeOf());
      Step(NodeUp{node, false, clock});
    }
    told_.clear();
  }

  core::StoreTime TimeOf() const {
    return {std::chrono::duration_cast<std::chrono::microseconds>(now_.time_since_epoch()).count()};
  }
  void Step(Input input) {
    std::vector<Effect> effects;
    ballot_.Step(now_, std::move(input), effects);
    for (Effect& effect : effects) {
      if (auto* send = std::get_if<SendTo>(&effect)) {
        std::visit(ExpectBound{now_}, send->command);
        sent_[send->node].push_back(std::move(*send));
      }
      if (auto* tell = std::get_if<TellCore>(&effect)) told_.push_back(std::move(tell->input));
    }
  }
  void Pass(Duration time) {
    now_ += time;
    Step(Tick{});
  }

  // The command that the server has not answered; the first of them is answered.
  template <typename Command>
  bool IsAsked(NodeIndex node) const {
    return !sent_[node].empty() && std::holds_alternative<Command>(sent_[node].front().command);
  }
  template <typename Command>
  size_t CountAsked() const {
    size_t count = 0;
    for (const auto& node : sent_) {
      for (const SendTo& send : node) count += std::holds_alternative<Command>(send.command);
    }
    return count;
  }
  void Answer(NodeIndex node, Outcome outcome) {
    now_ += microseconds(100);
    ASSERT_FALSE(sent_[node].empty());
    const NodeOp op = sent_[node].front().op;
    sent_[node].pop_front();
    Step(NodeReply{op, std::move(outcome), TimeOf()});
  }
  // It waits there behind the holder n, who came first.
  static NotVoted Behind(uint8_t n) {
    NotVoted answer;
    answer.queued = true;
    answer.place = kLate;
    answer.mode = core::Mode::kExclusive;
    answer.queue_length = 1;
    answer.holders.push_back(
        {.owner = OwnerOf(n), .token = kToken - 1, .ttl = seconds(30), .info = WithMark({0, 1}, "b1", "")});
    return answer;
  }
  core::HolderView Vote(uint8_t n, uint64_t token) const {
    return {.owner = OwnerOf(n), .token = token, .since = TimeOf(), .ttl = seconds(30)};
  }
  void Notice(NodeIndex node, uint8_t n, uint64_t token, Duration ahead = {}) {
    now_ += microseconds(100);
    Step(NodeNotice{
        node, {.name = TheLock(), .owner = OwnerOf(n), .token = token, .since = TimeOf(), .ttl = seconds(30)}, ahead});
  }

  void Wait(uint8_t n) {
    Step(core::StoreAcquire{.op = n, .name = TheLock(), .owner = OwnerOf(n), .ttl = seconds(30), .wait = true});
  }
  // The first such answer to the core.
  template <typename T>
  const T* Told() const {
    for (const core::Input& input : told_) {
      const auto* reply = std::get_if<core::StoreReply>(&input);
      const T* outcome = reply == nullptr ? nullptr : std::get_if<T>(&reply->outcome);
      if (outcome != nullptr) return outcome;
    }
    return nullptr;
  }
  const core::GrantNotice* Granted() const {
    for (const core::Input& input : told_) {
      if (const auto* notice = std::get_if<core::GrantNotice>(&input)) return notice;
    }
    return nullptr;
  }

  Instant now_{seconds(1'000'000)};
  Ballot ballot_;
  std::array<std::deque<SendTo>, kServers> sent_;
  std::vector<core::Input> told_;
};

}  // namespace distlock::store::ballot
