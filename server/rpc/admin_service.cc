// SPDX-License-Identifier: Apache-2.0
#include "rpc/admin_service.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rpc/call.h"
#include "rpc/convert.h"
#include "rpc/force_call.h"
#include "rpc/utf8.h"
#include "rpc/validate.h"

namespace distlock::rpc {
namespace {

constexpr core::Duration kMaxDrain = std::chrono::hours(24);

class StatusCall final : public UnaryCall {
 public:
  explicit StatusCall(const Admin& admin) : admin_(admin) {}

 private:
  void Start(const grpc::ByteBuffer&) override { Answer(StatusOf(frontend(), admin_)); }

  const Admin& admin_;
};

class DrainCall final : public UnaryCall {
 public:
  explicit DrainCall(const Admin& admin) : admin_(admin) {}

 private:
  void Start(const grpc::ByteBuffer& bytes) override {
    v1::DrainRequest request;
    if (!Read(bytes, &request)) return;
    Validator check(frontend().limits);
    std::optional<core::Duration> timeout;
    if (request.has_timeout()) timeout = check.Time(request.timeout(), {}, kMaxDrain, "timeout");
    if (!check.ok()) return void(Refuse(check.Refusal()));
    v1::DrainResponse response;
    for (const shard::ShardStatus& shard : shards().Status()) {
      response.set_leases(response.leases() + shard.stats.leases);
    }
    *response.mutable_timeout() = ToProto(admin_.drain(timeout));
    Answer(response);
  }

  const Admin& admin_;
};

class ListSessionsCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& bytes) override {
    v1::ListSessionsRequest request;
    if (!Read(bytes, &request)) return;
    Validator check(frontend().limits);
    const uint32_t size = check.Page(request.page_size(), "page_size");
    uint64_t after = 0;
    if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &after)) {
      check.Bad("page_token", "is none of this service; pass next_page_token unchanged");
    }
    if (!check.ok()) return void(Refuse(check.Refusal()));
    // One more tells whether it is the last page.
    auto streams = frontend().admission.StreamsAfter(after, size_t{size} + 1);
    v1::ListSessionsResponse response;
    if (streams.size() > size) {
      streams.resize(size);
      response.set_next_page_token(absl::StrCat(streams.back().first));
    }
    for (const auto& [id, stream] : streams) *response.add_sessions() = stream->Describe();
    Answer(response);
  }
};

// Its address, and its name where the connection has proved one.
std::string WhoAsks(const grpc::ServerContext& context) {
  std::string who = context.peer();
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return who;
  for (const grpc::string_ref& name : auth->GetPeerIdentity()) {
    absl::StrAppend(&who, " ", std::string(name.data(), name.size()));
  }
  return who;
}

}  // namespace

v1::GetStatusResponse StatusOf(const Frontend& frontend, const Admin& admin) {
  v1::GetStatusResponse status;
  status.set_version(admin.version);
  status.set_broker_id(frontend.broker_id);
  *status.mutable_started() = ToProto(core::StoreTime{absl::ToUnixMicros(admin.started)});
  *status.mutable_uptime() = ToProto(absl::ToChronoNanoseconds(absl::Now() - admin.started));
  status.set_store_url(admin.store_url);
  status.set_store_state(v1::STORE_STATE_UP);
  status.set_draining(frontend.admission.draining());
  status.set_sessions(frontend.admission.streams());
  const auto shards = frontend.shards.Status();
  for (const shard::ShardStatus& shard : shards) {
    if (!shard.store_up) {
      status.set_store_state(v1::STORE_STATE_DOWN);
      status.set_store_problem(CleanText(shard.store_problem));
    }
    status.set_leases(status.leases() + shard.stats.leases);
    status.set_waiters(status.waiters() + shard.stats.waiters);
    if (shard.stats.draining) status.set_draining(true);
  }
  status.set_shards(static_cast<uint32_t>(shards.size()));
  for (const std::string& address : admin.listen.get()) status.add_listen(address);
  *status.mutable_validity() = ToProto(frontend.limits.validity);
  return status;
}

void AdminService::Open(CallThreads& threads) {
  threads.OpenUnary(*this, &AdminService::RequestGetStatus,
                    [this](auto call) { UnaryCall::Serve<StatusCall>(frontend_, std::move(call), admin_); });
  threads.OpenUnary(*this, &AdminService::RequestListSessions,
                    [this](auto call) { UnaryCall::Serve<ListSessionsCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &AdminService::RequestForceRelease, [this](auto call) {
    std::string who = WhoAsks(call->context);
    UnaryCall::Serve<ForceReleaseCall>(frontend_, std::move(call), std::move(who));
  });
  threads.OpenUnary(*this, &AdminService::RequestDrain,
                    [this](auto call) { UnaryCall::Serve<DrainCall>(frontend_, std::move(call), admin_); });
}

}  // namespace distlock::rpc
