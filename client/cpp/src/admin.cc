// SPDX-License-Identifier: Apache-2.0
#include "distlock/admin.h"

#include <utility>

#include "distlock/client.h"
#include "distlock/wire/times.h"
#include "unary_call.h"

namespace distlock {
namespace {

using internal::Lookups;

// The broker answers when the last promise to the holders has ended.
constexpr Duration kForcePatience = std::chrono::seconds(35);

}  // namespace

Admin::Admin(Client& client) : core_(client.core_) {}

Result<BrokerStatus> Admin::Status() {
  const auto answer = internal::Call<v1::GetStatusResponse>(
      *core_, [](Lookups::Connection& to, auto... args) { return to.admin->GetStatus(args...); },
      v1::GetStatusRequest());
  if (!answer.ok()) return answer.refusal();
  return BrokerStatus{.version = answer->version(),
                      .broker_id = answer->broker_id(),
                      .start_time = wire::FromProto(answer->start_time()),
                      .uptime = wire::FromProto(answer->uptime()),
                      .store_url = answer->store_url(),
                      .store_up = answer->store_state() == v1::STORE_STATE_UP,
                      .store_problem = answer->store_problem(),
                      .draining = answer->draining(),
                      .streams = answer->sessions(),
                      .leases = answer->leases(),
                      .waiters = answer->waiters(),
                      .listen_addresses = {answer->listen_addresses().begin(), answer->listen_addresses().end()},
                      .validity = wire::FromProto(answer->validity())};
}

Result<StreamPage> Admin::Streams(const std::string& page_token, int32_t page_size) {
  v1::ListSessionsRequest request;
  request.set_page_token(page_token);
  request.set_page_size(page_size);
  const auto answer = internal::Call<v1::ListSessionsResponse>(
      *core_, [](Lookups::Connection& to, auto... args) { return to.admin->ListSessions(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  StreamPage page;
  for (const v1::SessionInfo& session : answer->sessions()) {
    const bool known = session.kind() >= v1::STREAM_KIND_SESSION && session.kind() <= v1::STREAM_KIND_WATCH;
    page.streams.push_back({.session_id = session.session_id(),
                            .kind = known ? static_cast<StreamKind>(session.kind()) : StreamKind::kUnknown,
                            .client = session.client(),
                            .peer = session.peer(),
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
      *core_, [](Lookups::Connection& to, auto... args) { return to.admin->ForceRelease(args...); }, request,
      kForcePatience);
  if (!answer.ok()) return answer.refusal();
  return answer->released();
}

Result<DrainBegun> Admin::Drain(std::optional<Duration> timeout) {
  v1::DrainRequest request;
  if (timeout) *request.mutable_timeout() = wire::ToProto(*timeout);
  const auto answer = internal::Call<v1::DrainResponse>(
      *core_, [](Lookups::Connection& to, auto... args) { return to.admin->Drain(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  return DrainBegun{.timeout = wire::FromProto(answer->timeout()), .leases = answer->leases()};
}

}  // namespace distlock
