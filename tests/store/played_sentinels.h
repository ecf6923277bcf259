// SPDX-License-Identifier: Apache-2.0
//
// Plays all sentinels to a SentinelView: what each says stays until it says something else. One thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/sentinel/sentinel_view.h"

namespace distlock::store {

inline ServerAddress HostAt(const std::string& host, int port = 6379) { return {.host = host, .port = port}; }

class PlayedSentinels : public testing::Test {
 protected:
  void Make(int configured, bool few_suffice = true) {
    std::vector<ServerAddress> addresses;
    for (int i = 0; i < configured; ++i) addresses.push_back(HostAt("s" + std::to_string(i), kSentinelPort));
    view_.emplace(SentinelView::Settings{.configured = addresses, .few_suffice = few_suffice});
    Give(SentinelView::Tick{});
  }

  void Give(const SentinelView::Input& input) {
    effects_.clear();
    view_->Step(now_, input, effects_);
    for (const auto& effect : effects_) Note(effect);
  }

  // Lets time pass; the view is stepped whenever it has asked to be, and each sentinel that is asked says the same as
  // before.
  void Pass(core::Duration by) {
    const core::Instant until = now_ + by;
    while (view_->NextDeadline() <= until) {
      const core::Instant due = view_->NextDeadline();
      ASSERT_TRUE(due > now_ || ++steps_at_once_ < 100) << "the view asks for turns without end";
      if (due > now_) steps_at_once_ = 0;
      now_ = std::max(now_, due);
      Give(SentinelView::Tick{});
      AnswerAsks();
    }
    now_ = until;
  }

  // Sentinel `id` shows this from now on.
  void Says(SentinelId id, const std::string& host, uint64_t epoch, std::vector<ServerAddress> peers = {}) {
    said_[id] = {HostAt(host), epoch, std::move(peers)};
    if (!up_.contains(id)) {
      up_.insert(id);
      Give(SentinelView::Up{id});
    }
    asked_.erase(id);
    Give(SentinelView::Reported{id, said_[id]});
    AnswerAsks();
  }

  void Gone(SentinelId id) {
    up_.erase(id);
    asked_.erase(id);
    Give(SentinelView::Down{id});
  }

  void AnswerAsks() {
    while (!asked_.empty()) {
      const SentinelId id = *asked_.begin();
      asked_.erase(asked_.begin());
      if (said_.contains(id)) Give(SentinelView::Reported{id, said_[id]});
    }
  }

  std::string primary() const { return primaries_.empty() ? "" : primaries_.back().address.host; }

  core::Instant now_{std::chrono::seconds(1000)};
  std::optional<SentinelView> view_;
  std::vector<SentinelView::Effect> effects_;  // of the last step
  std::vector<SentinelView::PrimaryAt> primaries_;
  std::vector<SentinelView::Dial> dials_;
  std::vector<SentinelId> drops_;
  std::vector<std::string> warnings_;
  std::vector<std::vector<std::string>> wrong_names_;
  std::vector<std::pair<SentinelId, core::Instant>> asks_;
  std::set<SentinelId> asked_;
  std::set<SentinelId> up_;
  std::map<SentinelId, SentinelReport> said_;
  int steps_at_once_ = 0;

 private:
  void Note(const SentinelView::Effect& effect) {
    if (const auto* dial = std::get_if<SentinelView::Dial>(&effect)) dials_.push_back(*dial);
    if (const auto* drop = std::get_if<SentinelView::Drop>(&effect)) drops_.push_back(drop->id);
    if (const auto* primary = std::get_if<SentinelView::PrimaryAt>(&effect)) primaries_.push_back(*primary);
    if (const auto* warn = std::get_if<SentinelView::Warn>(&effect)) warnings_.push_back(warn->text);
    if (const auto* wrong = std::get_if<SentinelView::WrongName>(&effect)) wrong_names_.push_back(wrong->known);
    if (const auto* ask = std::get_if<SentinelView::Ask>(&effect)) {
      EXPECT_TRUE(up_.contains(ask->id)) << "asked while it cannot be";
      EXPECT_TRUE(asked_.insert(ask->id).second) << "asked again before it has answered";
      asks_.emplace_back(ask->id, now_);
    }
  }
};

}  // namespace distlock::store
