// SPDX-License-Identifier: Apache-2.0
#include "rpc/call/admin_calls.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "contract/to_proto.h"
#include "contract/utf8.h"
#include "contract/validate.h"

namespace distlock::rpc {
namespace {

constexpr core::Duration kMaxDrain = std::chrono::hours(24);

v1::Refusal NoStoreToChange() {
  return contract::MakeRefusal(core::RefusalReason::kNotSupported, "this broker has no store that can be changed");
}

}  // namespace

void GetStatusCall::Start(const grpc::ByteBuffer&) {
  if (!Denied(frontend().authorizer.CheckBroker(subject(), access::Verb::kStatus)))
    Answer(BrokerStatus(frontend(), facts_));
}

void DrainCall::Start(const grpc::ByteBuffer& bytes) {
  v1::DrainRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  std::optional<core::Duration> timeout;
  if (request.has_timeout()) timeout = check.Time(request.timeout(), {}, kMaxDrain, "timeout");
  if (!check.ok()) return void(Refuse(check.Refusal()));
  if (Denied(frontend().authorizer.CheckBroker(subject(), access::Verb::kDrain))) return;
  v1::DrainResponse response;
  for (const shard::ShardStatus& shard : shards().Status()) {
    response.set_leases(response.leases() + static_cast<int64_t>(shard.stats.leases));
  }
  *response.mutable_timeout() = contract::ToProto(facts_.drain(timeout));
  Answer(response);
}

void ReloadCall::Start(const grpc::ByteBuffer&) {
  if (Denied(frontend().authorizer.CheckBroker(subject(), access::Verb::kReload))) return;
  if (!facts_.reload) return void(Answer(v1::ReloadResponse()));
  auto self = std::static_pointer_cast<ReloadCall>(shared_from_this());
  facts_.reload([self](const v1::ReloadResponse& response) { self->Answer(response); });
}

template <typename Response>
BrokerFacts::Changed StoreChangeCall::AnswerWith() {
  return [self = std::static_pointer_cast<StoreChangeCall>(shared_from_this())](const absl::Status& changed) {
    const std::string problem = contract::CleanText(std::string(changed.message()));
    if (absl::IsUnavailable(changed)) {
      self->Refuse(contract::MakeRefusal(core::RefusalReason::kStoreUnavailable, problem));
      return;
    }
    Response response;
    response.set_problem(problem);
    self->Answer(response);
  };
}

void UpgradeStoreCall::Start(const grpc::ByteBuffer& bytes) {
  v1::UpgradeStoreRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  if (request.to() < 1) {
    check.Bad("to", absl::StrCat("is ", request.to(), ", and schemas count from 1: pass the one to write from now on"));
  }
  if (!check.ok()) return void(Refuse(check.Refusal()));
  if (Denied(frontend().authorizer.CheckBroker(subject(), access::Verb::kStore))) return;
  if (!facts_.upgrade_store) return void(Refuse(NoStoreToChange()));
  facts_.upgrade_store(static_cast<uint32_t>(request.to()), CallerText(), AnswerWith<v1::UpgradeStoreResponse>());
}

void InitQuorumCall::Start(const grpc::ByteBuffer& bytes) {
  v1::InitQuorumRequest request;
  if (!Read(bytes, &request)) return;
  if (Denied(frontend().authorizer.CheckBroker(subject(), access::Verb::kStore))) return;
  if (!facts_.init_quorum) return void(Refuse(NoStoreToChange()));
  facts_.init_quorum(request.all_brokers_stopped(), CallerText(), AnswerWith<v1::InitQuorumResponse>());
}

void ListSessionsCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ListSessionsRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  const uint32_t size = check.Page(request.page_size(), "page_size");
  uint64_t after = 0;
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &after)) {
    check.Bad("page_token", "is none of this service; pass next_page_token unchanged");
  }
  if (!check.ok()) return void(Refuse(check.Refusal()));
  if (Denied(frontend().authorizer.CheckBroker(subject(), access::Verb::kSessions))) return;
  // One more stream than the page shows: it tells whether another page follows.
  const auto streams = frontend().admission.StreamsAfter(after, size_t{size} + 1);
  v1::ListSessionsResponse response;
  size_t shown = 0;
  for (const auto& [id, stream] : streams) {
    if (response.sessions_size() == static_cast<int>(size) || shown > contract::kMaxPageBytes) {
      response.set_next_page_token(absl::StrCat(after));
      break;
    }
    *response.add_sessions() = stream->Describe();
    shown += response.sessions(response.sessions_size() - 1).ByteSizeLong();
    after = id;
  }
  Answer(response);
}

namespace {

v1::StoreNodeState StateOf(const store::NodeStatus& node) {
  switch (node.state) {
    case store::NodeStatus::State::kDown:
      return v1::STORE_NODE_STATE_DOWN;
    case store::NodeStatus::State::kUp:
      return v1::STORE_NODE_STATE_UP;
    case store::NodeStatus::State::kHeldOff:
      return v1::STORE_NODE_STATE_HELD_OFF;
  }
  return v1::STORE_NODE_STATE_UNSPECIFIED;
}

void Describe(const store::NodeStatus& node, v1::StoreNode& out) {
  out.set_address(contract::CleanText(node.address));
  out.set_state(StateOf(node));
  out.set_problem(contract::CleanText(node.problem));
  out.set_refusal(contract::CleanText(node.refusal));
  out.set_role(contract::CleanText(node.role));
  out.set_version(contract::CleanText(node.version));
  out.set_identity(contract::CleanText(node.identity));
  out.set_epoch(static_cast<int64_t>(node.epoch));
  if (node.state == store::NodeStatus::State::kHeldOff && node.hold_off_left) {
    *out.mutable_hold_off_left() = contract::ToProto(*node.hold_off_left);
  }
  out.set_guard(node.guard);
  for (const store::ReplicaStatus& replica : node.replicas) {
    v1::StoreReplica& shown = *out.add_replicas();
    shown.set_address(contract::CleanText(replica.address));
    shown.set_online(replica.online);
    *shown.mutable_lag() = contract::ToProto(replica.lag);
  }
  out.set_primary_changes(static_cast<int64_t>(node.primary_changes));
  out.set_independent(node.independent);
  out.set_not_counted(contract::CleanText(node.not_counted));
  if (node.clock_skew) *out.mutable_clock_skew() = contract::ToProto(*node.clock_skew);
}

}  // namespace

v1::GetStatusResponse BrokerStatus(const Frontend& frontend, const BrokerFacts& facts) {
  v1::GetStatusResponse status;
  status.set_version(facts.version);
  status.set_broker_id(frontend.broker_id);
  *status.mutable_start_time() = contract::ToProto(core::StoreTime{absl::ToUnixMicros(facts.started)});
  *status.mutable_uptime() = contract::ToProto(absl::ToChronoNanoseconds(absl::Now() - facts.started));
  status.set_store_url(facts.store_url);
  status.set_store_state(v1::STORE_STATE_UP);
  status.set_draining(frontend.admission.draining());
  status.set_sessions(static_cast<int64_t>(frontend.admission.streams()));
  const auto shards = frontend.shards.Status();
  for (const shard::ShardStatus& shard : shards) {
    if (!shard.store_up) {
      status.set_store_state(v1::STORE_STATE_DOWN);
      status.set_store_problem(contract::CleanText(shard.store_problem));
    }
    status.set_leases(status.leases() + static_cast<int64_t>(shard.stats.leases));
    status.set_waiters(status.waiters() + static_cast<int64_t>(shard.stats.waiters));
    if (shard.stats.draining) status.set_draining(true);
  }
  status.set_shards(static_cast<int32_t>(shards.size()));
  for (const std::string& address : facts.listen.get()) status.add_listen_addresses(address);
  *status.mutable_validity() = contract::ToProto(frontend.limits.validity);
  status.set_wait_replicas(facts.wait_replicas);
  status.set_policy_generation(static_cast<int64_t>(frontend.authorizer.generation()));
  if (facts.store_nodes) {
    const std::vector<store::NodeStatus> nodes = facts.store_nodes();
    for (const store::NodeStatus& node : nodes) Describe(node, *status.add_store_nodes());
    status.set_store_refusal(contract::CleanText(store::WhyNoWrites(nodes)));
  }
  return status;
}

}  // namespace distlock::rpc
