// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/watch_locks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_details.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "rpc/engine/wire.h"
#include "rpc/messages/status.h"
#include "shard/boot_clock.h"

namespace distlock::rpc {
namespace {

// Taken at once; a message takes as many of them as fit.
constexpr size_t kBatch = 256;

}  // namespace

void WatchLocksCall::Start() {
  v1::WatchLocksRequest request;
  if (const auto problem = Parse(this->request(), &request)) {
    return Refuse(contract::MakeRefusal(core::RefusalReason::kInvalidArgument, *problem), StreamClose::kProtocol);
  }
  contract::Validator check(frontend_.limits);
  search_ = check.Search(request.namespace_(), request.key_prefix());
  if (!check.ok()) return Refuse(check.Refusal(), StreamClose::kFinished);
  {
    std::lock_guard lock(mu_);
    asked_ = std::move(request);
  }
  if (const auto denied = Unwelcome(subject_)) return Refuse(*denied, StreamClose::kDenied);
  if (const auto refusal = frontend_.admission.AdmitPrefixWatch()) return Refuse(*refusal, StreamClose::kQuota);
  bool already_ended = false;
  {
    std::lock_guard lock(mu_);
    already_ended = ended();
    if (!already_ended) {
      admitted_ = true;
      BeginRound();
    }
  }
  if (already_ended) frontend_.admission.LeavePrefixWatch();
}

// It tells which locks there are, as ListLocks does, and each change of them, as WatchLock does.
std::optional<v1::Refusal> WatchLocksCall::Unwelcome(Subject& subject) {
  std::optional<v1::WatchLocksRequest> asked;
  {
    std::lock_guard lock(mu_);
    asked = asked_;
  }
  if (!asked) return std::nullopt;  // Start asks by itself
  const auto ns = contract::NamespaceOf(asked->namespace_());
  const auto denied = frontend_.authorizer.CheckAll(subject, access::Verb::kList, ns, asked->key_prefix());
  return denied ? denied : frontend_.authorizer.CheckAll(subject, access::Verb::kWatch, ns, asked->key_prefix());
}

void WatchLocksCall::EndShards() {
  for (const auto& [name, watch] : watched_.All()) shards_.Post(shards_.ShardOf(name), core::StreamEnded{watch});
  pause_.Cancel();
  if (std::exchange(admitted_, false)) frontend_.admission.LeavePrefixWatch();
}

void WatchLocksCall::BeginRound() {
  round_began_ = shard::BootNow();
  page_token_.clear();
  all_posted_ = true;
  AskForPage();
}

void WatchLocksCall::AskForPage() {
  auto self = std::static_pointer_cast<WatchLocksCall>(shared_from_this());
  shards_.List(search_.escaped_namespace, search_.escaped_prefix, contract::kMaxPage, page_token_,
               frontend_.limits.store_timeout,
               [self](absl::StatusOr<store::LockPage> page) { self->OnPage(std::move(page)); });
}

void WatchLocksCall::OnPage(absl::StatusOr<store::LockPage> page) {
  {
    std::lock_guard lock(mu_);
    if (ended()) return;
    if (!page.ok()) {
      EndRound(/*complete=*/false);
    } else {
      Found(*page);
      if (ended()) {
        // Too many locks: nothing more is asked for.
      } else if (page->next_page_token.empty()) {
        EndRound(all_posted_);
      } else {
        page_token_ = std::move(page->next_page_token);
        AskForPage();
      }
    }
  }
  Pump();
}

void WatchLocksCall::Found(const store::LockPage& page) {
  for (const store::LockView& view : page.locks) {
    if (watched_.Knows(view.name)) continue;
    const core::SessionId watch = shards_.NewSessionId();
    if (!watched_.Add(view.name, watch)) {
      return Fail(contract::MakeRefusal(
                      core::RefusalReason::kQuotaExceeded,
                      absl::StrCat("more than ", frontend_.limits.max_watched_locks,
                                   " locks under this prefix are taken, or have changed since the client last read "
                                   "(limit max-watched-locks); watch longer prefixes, one stream each")),
                  StreamClose::kQuota);
    }
    if (!shards_.TryPost(shards_.ShardOf(view.name), core::WatchLock{.session = watch, .request = 1, .name = view.name},
                         watch, shared_from_this())) {
      watched_.Forget(watch);
      all_posted_ = false;
    }
  }
  StopWatching();
}

void WatchLocksCall::EndRound(bool complete) {
  watched_.EndRound(complete);
  StopWatching();
  const core::Duration pause = PauseAfterListing(shard::BootNow() - round_began_);
  pause_ = grpc::Alarm();  // one for each pause: gRPC does not say that an alarm can be set twice
  pause_.Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(pause.count(), GPR_TIMESPAN)),
             [weak = weak_from_this()](bool passed) {
               const auto self = passed ? std::static_pointer_cast<WatchLocksCall>(weak.lock()) : nullptr;
               if (self != nullptr) self->OnPause();
             });
}

void WatchLocksCall::OnPause() {
  {
    std::lock_guard lock(mu_);
    if (ended()) return;
    // A shard that drains ends the watches it has; there may be none.
    frontend_.admission.draining() ? Fail(contract::DrainingRefusal(), StreamClose::kDrained) : BeginRound();
  }
  Pump();
}

void WatchLocksCall::StopWatching() {
  for (const auto& [name, watch] : watched_.TakeDropped()) {
    shards_.Post(shards_.ShardOf(name), core::StreamEnded{watch});
  }
}

void WatchLocksCall::Fail(const v1::Refusal& refusal, StreamClose why) {
  if (frontend_.observer != nullptr) frontend_.observer->OnRefusedHere(contract::ReasonOf(refusal.reason()));
  Decide(ToStatus(contract::ErrorOf(refusal)), why);
}

void WatchLocksCall::OnEvents(int, std::vector<core::Notify> events) {
  std::lock_guard lock(mu_);
  for (core::Notify& notify : events) {
    if (ended()) return;
    Take(std::move(notify));
  }
  StopWatching();
}

// Under mu_.
void WatchLocksCall::Take(core::Notify notify) {
  if (auto* changed = std::get_if<core::Changed>(&notify.event)) {
    watched_.See(notify.session, std::move(changed->view), shard::BootNow());
  } else if (const auto* refused = std::get_if<core::Refused>(&notify.event)) {
    if (refused->reason == core::RefusalReason::kForeignKey) {
      return watched_.SeeForeign(notify.session, shard::BootNow());
    }
    Decide(ToStatus(contract::ErrorOf(contract::RefusalOf(*refused, {}))), StreamClose::kFinished);
  } else if (std::holds_alternative<core::EndStream>(notify.event)) {
    Decide(ToStatus(contract::ErrorOf(contract::DrainingRefusal())), StreamClose::kDrained);
  }
}

bool WatchLocksCall::TakeNext() {
  if (cleared_) return false;
  if (!writing_.empty()) return true;
  for (WatchedLocks::Change& change : watched_.TakeChanges(kBatch)) writing_.push_back(std::move(change));
  if (!ended()) StopWatching();
  writing_listed_ = watched_.TakeListed();
  return !writing_.empty() || writing_listed_;
}

grpc::ByteBuffer WatchLocksCall::Render() {
  v1::WatchLocksResponse response;
  for (size_t bytes = 0; !writing_.empty(); writing_.pop_front()) {
    SubtractAge(&writing_.front().view, shard::BootNow() - writing_.front().seen);
    v1::LockInfo lock = contract::WatchedLockOf(writing_.front().view);
    bytes += lock.ByteSizeLong();
    if (bytes > contract::kMaxPageBytes && response.locks_size() > 0) break;
    *response.add_locks() = std::move(lock);
  }
  if (writing_.empty()) response.set_listed(writing_listed_);
  return Serialize(response);
}

}  // namespace distlock::rpc
