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
#include "contract/page_token.h"
#include "contract/refusal.h"
#include "contract/show.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "distlock/v1/lock_service.pb.h"
#include "rpc/quota.h"
#include "shard/boot_clock.h"

namespace distlock::rpc {
namespace {

constexpr core::RequestId kOnly = 1;

}  // namespace

void AcquireCall::Start(const grpc::ByteBuffer& bytes) {
  v1::AcquireRequest request;
  if (!Read(bytes, &request)) return;
  peer_ = counted_peer();
  if (const auto refusal = frontend().admission.AdmitCall(peer_, shard::BootNow())) return void(Refuse(*refusal));
  admitted_ = true;
  contract::Validator check(frontend().limits);
  core::AcquireAll all{check.Locks(request.locks(), "locks", /*detached=*/true)};
  const core::LockName name = all.parts.empty() ? core::LockName() : all.parts.front().name;
  check.RequestId(request.request_id());
  if (!check.ok()) return void(Refuse(check.Refusal(), name));
  for (int i = 0; i < request.locks_size(); ++i) {
    if (Denied(frontend().authorizer.CheckAcquire(subject(), request.locks(i)), all.parts[static_cast<size_t>(i)].name))
      return;
  }
  if (frontend().admission.draining()) return void(Refuse(contract::DrainingRefusal(), name));
  if (Metered(all.parts.size())) return;

  repeatable_ = !request.request_id().empty();
  const std::string identity = subject().identity();
  const std::string request_id = contract::RequestOf(frontend().OwnerIdentity(subject()), request.request_id());
  // To the store each shard is a broker of its own, so the shard of the first lock can hold all of them.
  home_ = shards().ShardOf(name);
  for (size_t i = 0; i < all.parts.size(); ++i) {
    core::Acquire& acquire = all.parts[i];
    acquire.session = session();
    acquire.request = kOnly + i;
    acquire.owner = repeatable_ ? contract::OwnerIdOf(acquire.name, request_id) : contract::DetachedOwnerId();
    acquire.info = contract::MakeInfo(request.locks(static_cast<int>(i)), frontend().broker_id, home_, identity,
                                      /*detached=*/true);
    parts_.push_back({acquire.name, acquire.owner, acquire.ttl, acquire.max_hold, {}, 0});
  }
  all.parts.size() == 1 ? Ask(home_, std::move(all.parts.front())) : Ask(home_, std::move(all));
}

bool AcquireCall::Metered(size_t locks) {
  account_ = subject().account;
  if (account_ == nullptr) return false;
  const core::Instant now = shard::BootNow();
  auto refusal = TooFast(*account_, subject().identity(), now);
  if (!refusal) refusal = NoRoom(*account_, subject().identity(), locks);
  if (refusal) {
    account_ = nullptr;
    return Denied(refusal);
  }
  waiting_ = static_cast<int64_t>(locks);
  account_->Count(0, waiting_);
  return false;
}

void AcquireCall::OnEnd() {
  if (account_ != nullptr) account_->Count(0, -waiting_);
  if (admitted_) frontend().admission.LeaveCall(peer_, shard::BootNow());
}

void AcquireCall::OnEvent(core::Event& event) {
  if (auto* granted = std::get_if<core::Granted>(&event)) {
    bool all = true;
    for (Part& part : parts_) {
      if (part.name == granted->name) {
        part.grant = contract::GrantOf(*granted, part.max_hold);
        part.token = granted->token;
      }
      all = all && part.grant;
    }
    if (!all) return;
    v1::AcquireResponse response;
    for (Part& part : parts_) response.add_grants()->Swap(&*part.grant);
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
    shards().Post(home_, core::Release{.name = part.name, .owner = part.owner, .token = part.token, .ttl = part.ttl});
  }
}

void RenewCall::Start(const grpc::ByteBuffer& bytes) {
  v1::RenewRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  contract::LeaseId lease = check.Lease(request.lease_id(), "lease_id");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  name_ = lease.name;
  if (Denied(frontend().authorizer.CheckLease(subject(), name_), name_)) return;
  if (!core::IsDetached(lease.owner)) {
    check.Bad("lease_id", "is of a lease of a stream, which its broker renews; Renew is for detached leases");
    return void(Refuse(check.Refusal()));
  }
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
  name_ = lease.name;
  if (Denied(frontend().authorizer.CheckLease(subject(), name_), name_)) return;
  const int shard = shards().ShardOf(name_);
  AskSurely(shard, core::Release{.session = session(),
                                 .request = kOnly,
                                 .acquire = 0,
                                 .name = std::move(lease.name),
                                 .owner = lease.owner,
                                 .token = lease.token,
                                 .ttl = lease.ttl});
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
  if (Denied(frontend().authorizer.CheckLease(subject(), name_), name_)) return;
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
  const uint32_t max_waiters = request.has_max_waiters()
                                   ? check.Count(request.max_waiters(), contract::kMaxPage, "max_waiters")
                                   : contract::kDefaultPage;
  if (!check.ok()) return void(Refuse(check.Refusal(), name));
  if (Denied(frontend().authorizer.Check(subject(), access::Verb::kLook, request.namespace_(), request.key()), name))
    return;
  auto self = std::static_pointer_cast<GetLockCall>(shared_from_this());
  shards().Inspect(name, max_waiters, frontend().limits.store_timeout,
                   [self, name](absl::StatusOr<store::LockView> view) {
                     if (!view.ok()) return void(self->Refuse(contract::StoreRefusal(view.status(), name), name));
                     view->name = name;
                     v1::GetLockResponse response;
                     *response.mutable_lock() = contract::LockOf(*view);
                     if (view->held_off > core::Duration::zero()) {
                       *response.mutable_hold_off() = contract::ToProto(view->held_off);
                     }
                     self->Answer(response);
                   });
}

void CheckTokenCall::Start(const grpc::ByteBuffer& bytes) {
  v1::CheckTokenRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  const core::LockName name = check.Name(request.namespace_(), request.key(), "");
  const int64_t token = request.fencing_token();
  if (token <= 0) check.Bad("fencing_token", absl::StrCat("is ", token, "; pass the fencing_token of a Grant"));
  if (!check.ok()) return void(Refuse(check.Refusal(), name));
  if (Denied(frontend().authorizer.Check(subject(), access::Verb::kLook, request.namespace_(), request.key()), name))
    return;
  auto self = std::static_pointer_cast<CheckTokenCall>(shared_from_this());
  shards().Inspect(name, 0, frontend().limits.store_timeout, [self, name, token](absl::StatusOr<store::LockView> view) {
    if (!view.ok()) return void(self->Refuse(contract::StoreRefusal(view.status(), name), name));
    v1::CheckTokenResponse response;
    response.set_newest_token(static_cast<int64_t>(view->last_token));
    response.set_newest(response.newest_token() == token);
    self->Answer(response);
  });
}

void ListLocksCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ListLocksRequest request;
  if (!Read(bytes, &request)) return;
  const contract::Limits& limits = frontend().limits;
  contract::Validator check(limits);
  search_ = check.Search(request.namespace_(), request.key_prefix());
  const uint32_t page_size = check.Page(request.page_size(), "page_size");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  const auto ns = contract::NamespaceOf(request.namespace_());
  if (Denied(frontend().authorizer.CheckAll(subject(), access::Verb::kList, ns, request.key_prefix()))) return;
  caller_ = subject().identity();
  auto token = contract::UnbindPageToken(request.page_token(), caller_, search_);
  if (!token) {
    check.Bad("page_token", "is not one that ListLocks has given to this caller for this search; start without it");
    return void(Refuse(check.Refusal()));
  }
  page_token_ = *std::move(token);
  store_timeout_ = limits.store_timeout;
  listings_ = frontend().listings;
  auto self = std::static_pointer_cast<ListLocksCall>(shared_from_this());
  const bool in_line = listings_->Begin([self, page_size] {
    if (self->answered()) return false;  // nobody waits for it any more
    self->AskForPage(page_size);
    return true;
  });
  if (in_line) return;
  Refuse(contract::MakeRefusal(
      core::RefusalReason::kQuotaExceeded,
      absl::StrCat("as many ListLocks calls wait as may: ", Listings::kMostWaiting, "; try again later"),
      std::chrono::seconds(1)));
}

void ListLocksCall::AskForPage(uint32_t page_size) {
  auto self = std::static_pointer_cast<ListLocksCall>(shared_from_this());
  shards().List(search_.escaped_namespace, search_.escaped_prefix, page_size, page_token_, store_timeout_,
                [self](absl::StatusOr<store::LockPage> page) { self->OnPage(std::move(page)); });
}

void ListLocksCall::OnPage(absl::StatusOr<store::LockPage> page) {
  if (answered()) return listings_->End();
  if (absl::IsInvalidArgument(page.status())) {
    const contract::Limits any;
    contract::Validator bad(any);
    bad.Bad("page_token", std::string(page.status().message()));
    Refuse(bad.Refusal());
    return listings_->End();
  }
  if (!page.ok()) {
    Refuse(contract::StoreRefusal(page.status(), {}));
    return listings_->End();
  }
  v1::ListLocksResponse response;
  for (const store::LockView& view : page->locks) {
    // The store may have read the lock because the token named it.
    if (search_.Covers(view.name)) *response.add_locks() = contract::ListedLockOf(view);
  }
  const size_t bytes = response.ByteSizeLong();
  if (bytes > contract::kMaxPageBytes && page->locks.size() > 1) {
    // The store's page token belongs to the end of this page, so a shorter page must be read from the same start.
    return AskForPage(static_cast<uint32_t>(std::max<size_t>(page->locks.size() * contract::kMaxPageBytes / bytes, 1)));
  }
  response.set_next_page_token(contract::BindPageToken(page->next_page_token, caller_, search_));
  if (page->held_off > core::Duration::zero()) *response.mutable_hold_off() = contract::ToProto(page->held_off);
  Answer(response);
  listings_->End();
}

}  // namespace distlock::rpc
