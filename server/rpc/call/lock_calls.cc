// SPDX-License-Identifier: Apache-2.0
#include "rpc/call/lock_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/downgrade.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/limits.h"
#include "contract/refusal.h"
#include "contract/show.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "core/detached_reentry.h"
#include "core/limits.h"
#include "distlock/v1/lock_service.pb.h"
#include "shard/boot_clock.h"

namespace distlock::rpc {
namespace {

constexpr core::RequestId kOnly = 1;
constexpr uint8_t kMaxDepth = 255;

core::DetachedLease LeaseOf(const contract::LeaseId& id) {
  return {.owner = id.owner, .token = id.token, .ttl = id.ttl, .hold_count = id.depth};
}

}  // namespace

std::vector<core::Acquire> AcquireCall::CheckSpecs(const v1::AcquireRequest& request,
                                                   contract::Validator& check) const {
  if (request.more_size() >= static_cast<int>(core::kMaxTogether)) {
    check.Bad("more",
              absl::StrCat("has ", request.more_size(), " locks; at most ", core::kMaxTogether - 1, " are allowed"));
    return {};
  }
  if (request.more().empty()) return {check.Spec(request.lock(), "lock", /*detached=*/true)};
  std::vector<const v1::LockSpec*> specs{&request.lock()};
  for (const v1::LockSpec& spec : request.more()) specs.push_back(&spec);
  return check.Specs(
      specs, [](size_t i) { return i == 0 ? "lock" : absl::StrCat("more[", i - 1, "]"); }, /*detached=*/true);
}

void AcquireCall::Start(const grpc::ByteBuffer& bytes) {
  v1::AcquireRequest request;
  if (!Read(bytes, &request)) return;
  peer_ = context().peer();
  if (const auto refusal = frontend().admission.AdmitCall(peer_, shard::BootNow())) return void(Refuse(*refusal));
  admitted_ = true;
  contract::Validator check(frontend().limits);
  core::AcquireAll all{CheckSpecs(request, check)};
  const core::LockName name = all.parts.empty() ? core::LockName() : all.parts.front().name;
  check.RequestId(request.request_id());
  contract::LeaseId taken;
  if (!request.lease_id().empty()) {
    taken = check.Lease(request.lease_id(), "lease_id");
    if (!request.lock().reentrant()) check.Bad("lock.reentrant", "must be set to take again what lease_id names");
    if (!request.request_id().empty()) check.Bad("request_id", "is not for taking again; a repeat of that is harmless");
    if (!request.more().empty()) check.Bad("more", "is not for taking again");
    if (check.ok() && taken.name != name) check.Bad("lease_id", "is of another lock");
    if (check.ok() && taken.depth == kMaxDepth) check.Bad("lease_id", "was taken 255 times, the most there is");
  }
  if (!check.ok()) return void(Refuse(check.Refusal(), name));
  if (!request.lease_id().empty()) return TakeAgain(std::move(taken), all.parts.front().want);
  if (frontend().admission.draining()) return void(Refuse(contract::DrainingRefusal(), name));

  repeatable_ = !request.request_id().empty();
  // To the store each shard is a broker of its own, so the shard of the first lock can hold all of them.
  home_ = shards().ShardOf(name);
  for (size_t i = 0; i < all.parts.size(); ++i) {
    core::Acquire& acquire = all.parts[i];
    acquire.session = session();
    acquire.request = kOnly + i;
    acquire.owner = repeatable_ ? contract::OwnerIdOf(acquire.name, request.request_id()) : contract::RandomOwnerId();
    const v1::LockSpec& spec = i == 0 ? request.lock() : request.more(static_cast<int>(i) - 1);
    acquire.info = contract::MakeInfo(spec, frontend().broker_id, home_);
    parts_.push_back({acquire.name, acquire.owner, acquire.ttl, acquire.max_hold, {}});
  }
  all.parts.size() == 1 ? Ask(home_, std::move(all.parts.front())) : Ask(home_, std::move(all));
}

// Re-entry of a detached lease. It does not renew the lease; the caller does.
void AcquireCall::TakeAgain(contract::LeaseId id, const core::Want& want) {
  auto self = std::static_pointer_cast<AcquireCall>(shared_from_this());
  const core::LockName name = id.name;
  const contract::Limits& limits = frontend().limits;
  shards().Inspect(
      name, 1, limits.store_timeout,
      [self, id = std::move(id), want, drift = limits.clock_drift_ppm](absl::StatusOr<store::LockView> view) mutable {
        if (!view.ok()) return void(self->Refuse(contract::StoreRefusal(view.status(), id.name), id.name));
        view->name = id.name;
        auto decided = core::TakeDetachedAgain(*view, LeaseOf(id), want, contract::WantOf, drift);
        if (const auto* refused = std::get_if<core::Refused>(&decided)) {
          return void(self->Refuse(contract::RefusalOf(*refused, id.name), id.name));
        }
        ++id.depth;
        v1::AcquireResponse response;
        *response.mutable_grant() = contract::GrantOf(std::get<core::Granted>(decided), {});
        response.mutable_grant()->set_lease_id(contract::EncodeLeaseId(id));
        self->Answer(response);
      });
}

void AcquireCall::OnEnd() {
  if (admitted_) frontend().admission.LeaveCall(peer_, shard::BootNow());
}

void AcquireCall::OnEvent(core::Event& event) {
  if (auto* granted = std::get_if<core::Granted>(&event)) {
    bool all = true;
    for (Part& part : parts_) {
      if (part.name == granted->name) part.grant = contract::GrantOf(*granted, part.max_hold);
      all = all && part.grant;
    }
    if (!all) return;
    v1::AcquireResponse response;
    for (size_t i = 0; i < parts_.size(); ++i) {
      (i == 0 ? response.mutable_grant() : response.add_more())->Swap(&*parts_[i].grant);
    }
    granted_.store(true, std::memory_order_release);
    if (!Answer(response)) AnswerLost();
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    const core::LockName& about = refused->about.empty() ? parts_.front().name : refused->about;
    Refuse(contract::RefusalOf(*refused, about), about);
  }
}

void AcquireCall::AnswerLost() {
  // The core forgot the lease when it answered, so this call must release it.
  if (repeatable_ || !granted_.exchange(false, std::memory_order_acq_rel)) return;
  for (const Part& part : parts_) {
    shards().Post(home_, core::Release{.name = part.name, .owner = part.owner, .ttl = part.ttl});
  }
}

void RenewCall::Start(const grpc::ByteBuffer& bytes) {
  v1::RenewRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  contract::LeaseId lease = check.Lease(request.lease_id(), "lease_id");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  name_ = lease.name;
  const int shard = shards().ShardOf(name_);
  Ask(shard, core::Renew{.session = session(),
                         .request = kOnly,
                         .name = std::move(lease.name),
                         .owner = lease.owner,
                         .token = lease.token,
                         .ttl = lease.ttl,
                         .hold_until = lease.hold_until});
}

void RenewCall::OnEvent(core::Event& event) {
  if (const auto* renewed = std::get_if<core::RenewDone>(&event)) {
    v1::RenewResponse response;
    *response.mutable_valid_for() = contract::ToProto(renewed->valid_for);
    *response.mutable_ttl() = contract::ToProto(renewed->ttl);
    Answer(response);
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Refuse(contract::RefusalOf(*refused, name_), name_);
  }
}

void ReleaseCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ReleaseRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  contract::LeaseId lease = check.Lease(request.lease_id(), "lease_id");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  if (lease.depth > 1) return LeaveOne(lease);
  name_ = lease.name;
  const int shard = shards().ShardOf(name_);
  AskSurely(shard, core::Release{.session = session(),
                                 .request = kOnly,
                                 .acquire = 0,
                                 .name = std::move(lease.name),
                                 .owner = lease.owner,
                                 .token = lease.token,
                                 .ttl = lease.ttl});
}

// Releases one of several holds of a lease. The store does not count holds, so this only reads whether the lease is
// still held. The read lists a limited number of holders, in the order of their tokens; a lease that was listed when it
// was re-entered is therefore listed until it ends.
void ReleaseCall::LeaveOne(const contract::LeaseId& id) {
  auto self = std::static_pointer_cast<ReleaseCall>(shared_from_this());
  shards().Inspect(id.name, 1, frontend().limits.store_timeout, [self, id](absl::StatusOr<store::LockView> view) {
    if (!view.ok()) return void(self->Refuse(contract::StoreRefusal(view.status(), id.name), id.name));
    v1::ReleaseResponse response;
    response.set_outcome(contract::OutcomeOf(core::IsHeld(*view, LeaseOf(id)) ? core::ReleaseOutcome::kStillHeld
                                                                              : core::ReleaseOutcome::kAlreadyGone));
    self->Answer(response);
  });
}

void ReleaseCall::OnEvent(core::Event& event) {
  if (const auto* released = std::get_if<core::Released>(&event)) {
    v1::ReleaseResponse response;
    response.set_outcome(contract::OutcomeOf(released->outcome));
    Answer(response);
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Refuse(contract::RefusalOf(*refused, name_), name_);
  }
}

void DowngradeCall::Start(const grpc::ByteBuffer& bytes) {
  v1::DowngradeRequest request;
  if (!Read(bytes, &request)) return;
  auto checked = contract::CheckDowngrade(frontend().limits, 0, request.lease_id(), "");
  if (const auto* refusal = std::get_if<v1::Refusal>(&checked)) return void(Refuse(*refusal));
  auto& downgrade = std::get<core::Downgrade>(checked);
  name_ = downgrade.name;
  downgrade.session = session();
  downgrade.request = kOnly;
  const int shard = shards().ShardOf(name_);
  Ask(shard, std::move(downgrade));
}

void DowngradeCall::OnEvent(core::Event& event) {
  if (std::holds_alternative<core::Downgraded>(event)) {
    Answer(v1::DowngradeResponse());
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Refuse(contract::RefusalOf(*refused, name_), name_);
  }
}

void GetLockCall::Start(const grpc::ByteBuffer& bytes) {
  v1::GetLockRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  const core::LockName name = check.Name(request.namespace_(), request.key(), "");
  const uint32_t max_waiters = check.Page(request.max_waiters(), "max_waiters");
  if (!check.ok()) return void(Refuse(check.Refusal(), name));
  auto self = std::static_pointer_cast<GetLockCall>(shared_from_this());
  shards().Inspect(name, max_waiters, frontend().limits.store_timeout,
                   [self, name](absl::StatusOr<store::LockView> view) {
                     if (!view.ok()) return void(self->Refuse(contract::StoreRefusal(view.status(), name), name));
                     view->name = name;
                     v1::GetLockResponse response;
                     *response.mutable_lock() = contract::LockOf(*view);
                     self->Answer(response);
                   });
}

void ListLocksCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ListLocksRequest request;
  if (!Read(bytes, &request)) return;
  const contract::Limits& limits = frontend().limits;
  contract::Validator check(limits);
  check.Text(request.namespace_(), limits.max_namespace_bytes, "namespace");
  check.Text(request.key_prefix(), limits.max_key_bytes, "key_prefix");
  const uint32_t page_size = check.Page(request.page_size(), "page_size");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  namespace_ = core::EscapeNamespace(request.namespace_().empty() ? "default" : request.namespace_());
  prefix_ = core::EscapeKey(request.key_prefix());
  page_token_ = request.page_token();
  store_timeout_ = limits.store_timeout;
  AskForPage(page_size);
}

void ListLocksCall::AskForPage(uint32_t page_size) {
  auto self = std::static_pointer_cast<ListLocksCall>(shared_from_this());
  shards().List(namespace_, prefix_, page_size, page_token_, store_timeout_,
                [self](absl::StatusOr<store::LockPage> page) { self->OnPage(std::move(page)); });
}

void ListLocksCall::OnPage(absl::StatusOr<store::LockPage> page) {
  if (answered()) return;
  if (absl::IsInvalidArgument(page.status())) {
    const contract::Limits any;
    contract::Validator bad(any);
    bad.Bad("page_token", std::string(page.status().message()));
    return void(Refuse(bad.Refusal()));
  }
  if (!page.ok()) return void(Refuse(contract::StoreRefusal(page.status(), {})));
  v1::ListLocksResponse response;
  for (const store::LockView& view : page->locks) *response.add_locks() = contract::ListedLockOf(view);
  const size_t bytes = response.ByteSizeLong();
  if (bytes > contract::kMaxPageBytes && page->locks.size() > 1) {
    // The store's page token belongs to the end of this page, so a shorter page must be read from the same start.
    return AskForPage(static_cast<uint32_t>(std::max<size_t>(page->locks.size() * contract::kMaxPageBytes / bytes, 1)));
  }
  response.set_next_page_token(std::move(page->next_page_token));
  Answer(response);
}

}  // namespace distlock::rpc
