// SPDX-License-Identifier: Apache-2.0
#include "rpc/lock_calls.h"

#include <memory>
#include <utility>

#include "distlock/v1/lock_service.pb.h"
#include "rpc/conversion.h"
#include "rpc/convert.h"
#include "rpc/holder_info.h"
#include "rpc/ids.h"
#include "rpc/validate.h"

namespace distlock::rpc {
namespace {

constexpr core::RequestId kOnly = 1;

}  // namespace

void AcquireCall::Start(const grpc::ByteBuffer& bytes) {
  v1::AcquireRequest request;
  if (!Read(bytes, &request)) return;
  Validator check(frontend().limits);
  core::Acquire acquire = check.Spec(request.lock(), "lock", /*detached=*/true);
  check.RequestId(request.request_id());
  if (!check.ok()) return void(Refuse(check.Refusal(), acquire.name));
  if (frontend().admission.draining()) return void(Refuse(DrainingRefusal(), acquire.name));

  name_ = acquire.name;
  max_hold_ = acquire.max_hold;
  ttl_ = acquire.ttl;
  repeatable_ = !request.request_id().empty();
  acquire.session = session();
  acquire.request = kOnly;
  acquire.owner = repeatable_ ? OwnerIdOf(acquire.name, request.request_id()) : RandomOwnerId();
  owner_ = acquire.owner;
  const int shard = shards().ShardOf(acquire.name);
  acquire.info = MakeInfo(request.lock(), frontend().broker_id, shard);
  Ask(shard, std::move(acquire));
}

void AcquireCall::OnEvent(core::Event& event) {
  if (auto* granted = std::get_if<core::Granted>(&event)) {
    v1::AcquireResponse response;
    *response.mutable_grant() = GrantOf(*granted, max_hold_);
    granted_.store(true, std::memory_order_release);
    if (!Answer(response)) AnswerLost();
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Refuse(RefusalOf(*refused, name_), name_);
  }
}

void AcquireCall::AnswerLost() {
  // The core has forgotten the lease with its answer.
  if (repeatable_ || !granted_.exchange(false, std::memory_order_acq_rel)) return;
  shards().Post(shards().ShardOf(name_), core::Release{.name = name_, .owner = owner_, .ttl = ttl_});
}

void RenewCall::Start(const grpc::ByteBuffer& bytes) {
  v1::RenewRequest request;
  if (!Read(bytes, &request)) return;
  Validator check(frontend().limits);
  LeaseId lease = check.Lease(request.lease_id(), "lease_id");
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
    *response.mutable_valid_for() = ToProto(renewed->valid_for);
    *response.mutable_ttl() = ToProto(renewed->ttl);
    Answer(response);
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Refuse(RefusalOf(*refused, name_), name_);
  }
}

void ReleaseCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ReleaseRequest request;
  if (!Read(bytes, &request)) return;
  Validator check(frontend().limits);
  LeaseId lease = check.Lease(request.lease_id(), "lease_id");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  name_ = lease.name;
  const int shard = shards().ShardOf(name_);
  AskSurely(
      shard,
      core::Release{.session = session(),
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
    response.set_outcome(OutcomeOf(released->outcome));
    Answer(response);
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Refuse(RefusalOf(*refused, name_), name_);
  }
}

void ConvertCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ConvertRequest request;
  if (!Read(bytes, &request)) return;
  auto checked = CheckConversion(frontend().limits, 0, request.lease_id(), request.mode(), "");
  if (const auto* refusal = std::get_if<v1::Refusal>(&checked)) return void(Refuse(*refusal));
  auto& convert = std::get<core::Convert>(checked);
  name_ = convert.name;
  convert.session = session();
  convert.request = kOnly;
  const int shard = shards().ShardOf(name_);
  Ask(shard, std::move(convert));
}

void ConvertCall::OnEvent(core::Event& event) {
  if (std::holds_alternative<core::Converted>(event)) {
    Answer(v1::ConvertResponse());
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Refuse(RefusalOf(*refused, name_), name_);
  }
}

void GetLockCall::Start(const grpc::ByteBuffer& bytes) {
  v1::GetLockRequest request;
  if (!Read(bytes, &request)) return;
  Validator check(frontend().limits);
  const core::LockName name = check.Name(request.namespace_(), request.key(), "");
  const uint32_t max_waiters = check.Page(request.max_waiters(), "max_waiters");
  if (!check.ok()) return void(Refuse(check.Refusal(), name));
  auto self = std::static_pointer_cast<GetLockCall>(shared_from_this());
  shards().Inspect(name, max_waiters, frontend().limits.store_timeout,
                   [self, name](absl::StatusOr<store::LockView> view) {
                     if (!view.ok()) return void(self->Refuse(StoreRefusal(view.status(), name), name));
                     view->name = name;
                     v1::GetLockResponse response;
                     *response.mutable_lock() = LockOf(*view);
                     self->Answer(response);
                   });
}

void ListLocksCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ListLocksRequest request;
  if (!Read(bytes, &request)) return;
  const Limits& limits = frontend().limits;
  Validator check(limits);
  check.Text(request.namespace_(), limits.max_namespace_bytes, "namespace");
  check.Text(request.key_prefix(), limits.max_key_bytes, "key_prefix");
  const uint32_t page_size = check.Page(request.page_size(), "page_size");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  const std::string ns = request.namespace_().empty() ? "default" : request.namespace_();
  auto self = std::static_pointer_cast<ListLocksCall>(shared_from_this());
  shards().List(core::EscapeNamespace(ns), core::EscapeKey(request.key_prefix()), page_size, request.page_token(),
                limits.store_timeout, [self](absl::StatusOr<store::LockPage> page) {
                  if (absl::IsInvalidArgument(page.status())) {
                    const Limits any;
                    Validator bad(any);
                    bad.Bad("page_token", std::string(page.status().message()));
                    return void(self->Refuse(bad.Refusal()));
                  }
                  if (!page.ok()) return void(self->Refuse(StoreRefusal(page.status(), {})));
                  v1::ListLocksResponse response;
                  for (const store::LockView& view : page->locks) *response.add_locks() = LockOf(view);
                  response.set_next_page_token(std::move(page->next_page_token));
                  self->Answer(response);
                });
}

}  // namespace distlock::rpc
