// SPDX-License-Identifier: Apache-2.0
#include "distlock/admin.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "distlock/client.h"
#include "distlock/wire/times.h"
#include "unary_call.h"

namespace distlock {
namespace {

using internal::Lookups;

// The broker answers when the last promise to the holders has ended.
constexpr Duration kForcePatience = std::chrono::seconds(30);
// A broker looks at its servers twice, each time for its --store-timeout, which may be as long as a minute.
constexpr Duration kChangePatience = std::chrono::minutes(3);
constexpr Duration kBetweenLooks = std::chrono::milliseconds(200);

StoreNodeState ToState(v1::StoreNodeState state) {
  if (state == v1::STORE_NODE_STATE_UP) return StoreNodeState::kUp;
  return state == v1::STORE_NODE_STATE_HELD_OFF ? StoreNodeState::kHeldOff : StoreNodeState::kDown;
}

StoreNode ToStoreNode(const v1::StoreNode& wire) {
  StoreNode node{.address = wire.address(),
                 .state = ToState(wire.state()),
                 .problem = wire.problem(),
                 .refusal = wire.refusal(),
                 .role = wire.role(),
                 .version = wire.version(),
                 .identity = wire.identity(),
                 .epoch = wire.epoch(),
                 .guard = wire.guard(),
                 .primary_changes = wire.primary_changes(),
                 .independent = wire.independent(),
                 .not_counted = wire.not_counted()};
  if (wire.has_hold_off_left()) node.hold_off_left = wire::FromProto(wire.hold_off_left());
  if (wire.has_clock_skew()) node.clock_skew = wire::DifferenceFromProto(wire.clock_skew());
  for (const v1::StoreReplica& replica : wire.replicas()) {
    node.replicas.push_back({replica.address(), replica.online(), wire::FromProto(replica.lag())});
  }
  return node;
}

BrokerStatus ToStatus(const v1::GetStatusResponse& wire) {
  BrokerStatus status{.version = wire.version(),
                      .broker_id = wire.broker_id(),
                      .start_time = wire::FromProto(wire.start_time()),
                      .uptime = wire::FromProto(wire.uptime()),
                      .store_url = wire.store_url(),
                      .store_up = wire.store_state() == v1::STORE_STATE_UP,
                      .store_problem = wire.store_problem(),
                      .store_refusal = wire.store_refusal(),
                      .draining = wire.draining(),
                      .streams = wire.sessions(),
                      .leases = wire.leases(),
                      .waiters = wire.waiters(),
                      .shards = wire.shards(),
                      .listen_addresses = {wire.listen_addresses().begin(), wire.listen_addresses().end()},
                      .validity = wire::FromProto(wire.validity()),
                      .wait_replicas = wire.wait_replicas(),
                      .policy_generation = wire.policy_generation()};
  for (const v1::StoreNode& node : wire.store_nodes()) status.store_nodes.push_back(ToStoreNode(node));
  return status;
}

constexpr auto kGetStatus = [](Lookups::Connection& to, auto&&... args) { return to.admin->GetStatus(args...); };

}  // namespace

Admin::Admin(Client& client) : core_(client.core_) {}

Result<BrokerStatus> Admin::Status() {
  const auto answer = internal::Call<v1::GetStatusResponse>(*core_, kGetStatus, v1::GetStatusRequest());
  if (!answer.ok()) return answer.refusal();
  return ToStatus(*answer);
}

Result<StreamPage> Admin::Streams(const std::string& page_token, int32_t page_size) {
  v1::ListSessionsRequest request;
  request.set_page_token(page_token);
  request.set_page_size(page_size);
  const auto answer = internal::Call<v1::ListSessionsResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.admin->ListSessions(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  StreamPage page;
  for (const v1::SessionInfo& session : answer->sessions()) {
    const bool known = session.kind() >= v1::STREAM_KIND_SESSION && session.kind() <= v1::STREAM_KIND_WATCH;
    page.streams.push_back({.session_id = session.session_id(),
                            .kind = known ? static_cast<StreamKind>(session.kind()) : StreamKind::kUnknown,
                            .client = session.client(),
                            .peer = session.peer(),
                            .identity = session.identity(),
                            .open_time = wire::FromProto(session.open_time()),
                            .leases = session.leases(),
                            .waiters = session.waiters()});
  }
  page.next_page_token = answer->next_page_token();
  return page;
}

Result<int32_t> Admin::ForceRelease(const std::string& key, const std::string& lock_namespace,
                                    const std::string& holder_id, const std::string& reason) {
  v1::ForceReleaseRequest request;
  request.set_namespace_(lock_namespace);
  request.set_key(key);
  request.set_holder_id(holder_id);
  request.set_reason(reason);
  const auto answer = internal::Call<v1::ForceReleaseResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.admin->ForceRelease(args...); }, request,
      Duration(internal::AddNs(kForcePatience.count(), core_->options().call_timeout.count())));
  if (!answer.ok()) return answer.refusal();
  return answer->released();
}

Result<DrainBegun> Admin::Drain(std::optional<Duration> timeout) {
  v1::DrainRequest request;
  if (timeout) *request.mutable_timeout() = wire::ToProto(*timeout);
  const auto answer = internal::Call<v1::DrainResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.admin->Drain(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  return DrainBegun{.timeout = wire::FromProto(answer->timeout()), .leases = answer->leases()};
}

std::optional<Refusal> Admin::WaitUntilGone(const std::string& broker_id, std::stop_token stop) {
  const Duration timeout = core_->options().call_timeout;
  int64_t answered_ns = internal::BootNow();
  while (!stop.stop_requested()) {
    if (internal::OnLibraryThread()) return internal::WouldDeadlock();
    if (auto refusal = core_->Unusable()) return refusal;
    const auto found = core_->lookups().Present();
    if (found == nullptr) return internal::ClosedRefusal();
    v1::GetStatusResponse now;
    grpc::ClientContext call;
    found->Authorize(call);
    const std::stop_callback on_closing(core_->lookups().closing(), [&] { call.TryCancel(); });
    const std::stop_callback on_stop(stop, [&] { call.TryCancel(); });
    call.set_deadline(internal::WallTimeIn(timeout));
    const grpc::Status status = found->admin->GetStatus(&call, {}, &now);
    if (status.ok() && now.broker_id() != broker_id) return std::nullopt;
    const bool answer = status.ok() || internal::IsOfBroker(status);
    if (!answer && status.error_code() == grpc::StatusCode::UNAVAILABLE) return std::nullopt;
    if (answer) answered_ns = internal::BootNow();
    if (internal::BootNow() - answered_ns >= timeout.count() && !stop.stop_requested()) {
      const auto silent_ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
      return Refusal{.reason = RefusalReason::kUnreachable,
                     .message = absl::StrCat("broker ", broker_id, " has not answered for ", silent_ms,
                                             " ms, but is still there: it may not have drained yet")};
    }
    // Returns early when the connection ends.
    const grpc_connectivity_state state = found->channel->GetState(false);
    if (state == GRPC_CHANNEL_READY) {
      found->channel->WaitForStateChange(state, internal::WallTimeIn(kBetweenLooks));
    }
  }
  return internal::CancelledRefusal();
}

Result<AccessAnswer> Admin::CheckAccess(const AccessQuestion& question) {
  v1::CheckAccessRequest request;
  request.set_verb(question.verb);
  request.set_namespace_(question.lock_namespace);
  request.set_key(question.key);
  request.set_prefix(question.prefix);
  request.set_principal(question.principal);
  const auto answer = internal::Call<v1::CheckAccessResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.admin->CheckAccess(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  AccessAnswer out{.allowed = answer->allowed(), .rule = answer->rule(), .identity = answer->identity()};
  out.obstacle = answer->obstacle();
  for (const v1::AccessRight& right : answer->rights()) {
    out.rights.push_back({.verb = right.verb(),
                          .locks = {right.locks().begin(), right.locks().end()},
                          .denied_locks = {right.denied_locks().begin(), right.denied_locks().end()}});
  }
  return out;
}

Result<std::vector<ReloadedUnit>> Admin::Reload() {
  const auto answer = internal::Call<v1::ReloadResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.admin->Reload(args...); }, v1::ReloadRequest());
  if (!answer.ok()) return answer.refusal();
  std::vector<ReloadedUnit> units;
  for (const v1::ReloadedUnit& unit : answer->units()) {
    units.push_back(
        {.unit = unit.unit(), .reloaded = unit.outcome() == v1::RELOAD_OUTCOME_RELOADED, .problem = unit.problem()});
  }
  return units;
}

Result<std::string> Admin::UpgradeStore(int32_t to) {
  v1::UpgradeStoreRequest request;
  request.set_to(to);
  const auto answer = internal::Call<v1::UpgradeStoreResponse>(
      *core_, [](Lookups::Connection& at, auto&&... args) { return at.admin->UpgradeStore(args...); }, request,
      kChangePatience);
  if (!answer.ok()) return answer.refusal();
  return answer->problem();
}

Result<std::string> Admin::InitQuorum(bool all_brokers_stopped) {
  v1::InitQuorumRequest request;
  request.set_all_brokers_stopped(all_brokers_stopped);
  const auto answer = internal::Call<v1::InitQuorumResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.admin->InitQuorum(args...); }, request,
      kChangePatience);
  if (!answer.ok()) return answer.refusal();
  return answer->problem();
}

}  // namespace distlock
