// SPDX-License-Identifier: Apache-2.0
//
// News of a node for people: its status, and its problems, each once. Thread: the loop's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/redis/node_clock.h"
#include "store/redis/node_context.h"
#include "store/redis/server_checks.h"

namespace distlock::store {

class NodeReport {
 public:
  NodeReport(NodeContext& context, const ServerChecks& checks, const NodeClock& clock);

  void TellStatus() const;
  // The link is up, and leads to `another` server than before.
  void OnServer(bool another);
  // The two connections have one server.
  void OnBound() { channel_problem_.clear(); }
  void OnLinkProblem(const absl::Status& why) { Report(link_problem_, "", why); }
  void OnChannelProblem(const absl::Status& why) { Report(channel_problem_, "hand-off channel: ", why); }
  // The server is up and refuses a command.
  void OnRefused(const core::StoreFailed& failed);
  void Stop() { count_timer_->Stop(); }

 private:
  // For operators: what names that are never used again leave behind.
  void CountKeys();
  // `last`: the problem that this connection reported last. Each has its own, so that two problems in turn are not new
  // each time.
  void Report(std::string& last, std::string_view who, const absl::Status& why);

  NodeContext& context_;
  const ServerChecks& checks_;
  const NodeClock& clock_;
  uint64_t primary_changes_ = 0;
  std::optional<uint64_t> keys_;
  std::string link_problem_;
  std::string channel_problem_;
  std::optional<core::Instant> refusal_at_;  // when one was reported
  const std::unique_ptr<Timer> count_timer_;
};

}  // namespace distlock::store
