// SPDX-License-Identifier: Apache-2.0
//
// The Store of one Redis or Valkey server: a command connection and a hand-off channel.
//
// Thread: the loop's, as Store says. StoreUp comes once the command connection is logged in, the server found fit and
// all scripts loaded; the first one also waits for the hand-off channel. From then on each connection lives for itself:
// StoreDown is the command connection's, ChannelUp tells of each new subscription. StoreDown comes before the answers
// to what was pending, and again when the cause changes. After Stop the loop must run until its handles are closed.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "store/redis/codec.h"
#include "store/redis/link.h"
#include "store/redis/notice_channel.h"
#include "store/redis/pending_queries.h"
#include "store/redis/preparation.h"
#include "store/redis/script_batch.h"
#include "store/redis/script_caller.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

class SingleStore : public Store, private Link::Owner, private NoticeChannel::Owner {
 public:
  SingleStore(uv_loop_t* loop, StoreOptions options);
  ~SingleStore() override;

  void Start(StoreListener* listener) override;
  void Submit(core::StoreCommand&& command) override;
  void Flush() override;
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done) override;
  void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size, std::string page_token,
            core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done) override;
  void Stop() override;

 private:
  void OnLinkConnected() override;
  void OnLinkDown(const absl::Status& why) override;
  void OnChannelUp() override;
  void OnChannelDown(const absl::Status& why) override;
  void OnChannelMessage(std::string_view payload) override;

  void OnPrepared(const absl::StatusOr<Prepared>& prepared);
  void OnAnswer(const Question& question, const Answer& answer);
  // `last` is that of the same source: two that take turns are not news each time.
  void ReportProblem(std::string& last, std::string_view who, const absl::Status& why);
  void ReportRefusal(const core::StoreFailed& failed);
  void RefuseSoon(PendingQueries::Id id, absl::Status why);
  void Tell(core::Input&& input);

  // Const after construction.
  const StoreOptions options_;
  const Codec codec_;

  StoreListener* listener_ = nullptr;  // null before Start and after Stop
  bool up_ = false;
  bool channel_seen_ = false;  // subscribed at least once
  bool first_up_done_ = false;
  std::string down_cause_ = "not connected yet";
  std::string told_cause_;    // of the last StoreDown, "" since StoreUp
  std::string last_problem_;  // of the link
  std::string last_channel_problem_;
  std::optional<uint64_t> refusal_at_ms_;  // uv_now when one was reported
  uv_loop_t* const loop_;
  Link link_;
  ScriptCaller scripts_;
  ScriptBatch batch_;
  NoticeChannel channel_;
  PendingQueries questions_;
};

}  // namespace distlock::store
