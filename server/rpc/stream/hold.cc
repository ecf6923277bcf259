// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/hold.h"

#include <algorithm>
#include <utility>

#include "contract/error_details.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "rpc/engine/wire.h"
#include "rpc/messages/status.h"
#include "shard/boot_clock.h"

namespace distlock::rpc {
namespace {

bool IsState(const core::Event& event) {
  return std::holds_alternative<core::Renewed>(event) || std::holds_alternative<core::AtRisk>(event);
}

bool IsWanted(const core::Event& event) { return std::holds_alternative<core::Wanted>(event); }

}  // namespace

void HoldCall::Start() {
  v1::HoldRequest request;
  if (const auto problem = Parse(this->request(), &request)) {
    return Refuse(contract::MakeRefusal(core::RefusalReason::kInvalidArgument, *problem), StreamClose::kProtocol);
  }
  contract::Validator check(frontend_.limits);
  core::Acquire acquire = check.Spec(request.lock(), "lock", /*detached=*/false);
  if (request.lock().reentrant()) check.Bad("lock.reentrant", "is for Session only: the stream of a Hold has one lock");
  check.RequestId(request.request_id());
  const uint32_t generation = check.Count(request.generation(), INT32_MAX, "generation");
  if (!check.ok()) return Refuse(check.Refusal(), StreamClose::kFinished, acquire.name);
  std::optional<v1::Refusal> denied = frontend_.authorizer.CheckAcquire(subject_, request.lock());
  if (denied) return Refuse(*denied, StreamClose::kDenied, acquire.name);
  if (account_ != nullptr) {
    denied = TooFast(*account_, subject_.identity(), shard::BootNow());
    if (!denied) denied = NoRoom(*account_, subject_.identity(), 1);
    if (denied) return Refuse(*denied, StreamClose::kQuota, acquire.name);
  }
  acquire.session = session_;
  acquire.request = 1;
  acquire.owner = contract::OwnerIdOnStream(
      acquire, contract::RequestOf(frontend_.OwnerIdentity(subject_), request.request_id()), generation);
  const int shard = shards_.ShardOf(acquire.name);
  acquire.info = contract::MakeInfo(request.lock(), frontend_.broker_id, shard, subject_.identity());

  bool posted = false;
  {
    std::lock_guard lock(mu_);
    if (ended()) return;
    name_ = acquire.name;
    owner_ = request.lock().owner();
    if (request.has_process()) BindProcess(request.process());
    core::OpenSession open{.session = session_, .kind = core::SessionKind::kHold};
    if (shards_.TryPost(shard, open, session_, shared_from_this())) {
      shard_ = shard;
      posted = shards_.TryPost(shard, std::move(acquire));
      Count(0, 1);
    }
  }
  if (!posted) Refuse(contract::OverloadRefusal(), StreamClose::kQuota, name_);
}

void HoldCall::DescribeMore(v1::SessionInfo* info) const {
  info->set_kind(v1::STREAM_KIND_HOLD);
  info->set_client(owner_);
  info->set_leases(granted_ && !ended() ? 1 : 0);
  info->set_waiters(!granted_ && shard_ >= 0 && !ended() ? 1 : 0);
}

void HoldCall::Count(int64_t leases, int64_t waiters) {
  if (account_ != nullptr) account_->Count(leases, waiters);
}

void HoldCall::EndShards() {
  if (shard_ >= 0) granted_ ? Count(-1, 0) : Count(0, -1);
  if (shard_ >= 0) shards_.Post(shard_, core::StreamEnded{session_});
}

void HoldCall::OnEvents(int, std::vector<core::Notify> events) {
  {
    std::lock_guard lock(mu_);
    for (core::Notify& notify : events) {
      if (ended()) break;
      Take(std::move(notify.event));
    }
  }
}

// Under mu_.
void HoldCall::Take(core::Event event) {
  const auto* queued = std::get_if<core::Queued>(&event);
  if (queued != nullptr && frontend_.observer != nullptr) frontend_.observer->OnQueued(queued->position);
  if (const auto* refused = std::get_if<core::Refused>(&event)) {
    has_nothing_ = true;
    return Decide(ToStatus(contract::ErrorOf(contract::RefusalOf(*refused, name_), name_)), StreamClose::kFinished);
  }
  if (const auto* end = std::get_if<core::EndStream>(&event)) {
    if (end->why == core::StreamEnd::kHolderDied) {
      return Decide(ToStatus(contract::HolderDiedError()), StreamClose::kBroken);
    }
    return Decide(end->why == core::StreamEnd::kGoodbye
                      ? grpc::Status::OK
                      : ToStatus(contract::ErrorOf(contract::DrainingRefusal(), name_)),
                  StreamClose::kDrained);
  }
  if (std::holds_alternative<core::Granted>(event) && !std::exchange(granted_, true)) Count(1, -1);
  if (IsState(event)) std::erase_if(waiting_, IsState);
  if (IsWanted(event)) std::erase_if(waiting_, IsWanted);
  if (const auto* lost = std::get_if<core::Lost>(&event)) {
    Decide(ToStatus(contract::LostError(*lost)), StreamClose::kFinished);
  } else if (std::holds_alternative<core::Released>(event)) {
    has_nothing_ = true;
    Decide(grpc::Status::OK, StreamClose::kFinished);
  }
  waiting_.push_back(std::move(event));
}

bool HoldCall::TakeNext() {
  if (waiting_.empty()) return false;
  writing_now_ = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

grpc::ByteBuffer HoldCall::Render() {
  v1::HoldResponse response;
  struct {
    v1::HoldResponse& out;
    void operator()(const core::Queued& event) const { *out.mutable_queued() = contract::QueuedOf(event); }
    void operator()(const core::Granted& event) const { contract::Fill(event, {}, out.mutable_granted()); }
    void operator()(const core::Renewed& event) const { *out.mutable_renewed() = contract::RenewedOf(event); }
    void operator()(const core::AtRisk& event) const { *out.mutable_at_risk() = contract::AtRiskOf(event); }
    void operator()(const core::Wanted& event) const { *out.mutable_wanted() = contract::WantedOf(event); }
    void operator()(const core::Lost& event) const { *out.mutable_lost() = contract::LostOf(event); }
    void operator()(const core::Released& event) const { contract::Fill(event, out.mutable_released()); }
    void operator()(const core::Draining& event) const { *out.mutable_draining() = contract::DrainingOf(event); }
    // A Hold never queues these.
    void operator()(const core::Refused&) const {}
    void operator()(const core::RenewDone&) const {}
    void operator()(const core::Downgraded&) const {}
    void operator()(const core::HeartbeatAck&) const {}
    void operator()(const core::Changed&) const {}
    void operator()(const core::EndStream&) const {}
  } fill{response};
  std::visit(fill, writing_now_);
  return Serialize(response);
}

}  // namespace distlock::rpc
