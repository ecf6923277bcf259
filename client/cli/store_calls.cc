// SPDX-License-Identifier: Apache-2.0
#include "store_calls.h"

#include "addresses.h"
#include "lookups.h"
#include "tls_channel.h"
#include "unary_call.h"

namespace distlock::cli {
namespace {

// A broker looks at its servers twice, each time for its --store-timeout, which may be as long as a minute.
constexpr Duration kChangePatience = std::chrono::minutes(3);

template <typename Answer, typename Request, typename Method>
Result<std::string> Ask(const Context& context, const Client& client, const Request& request, Method method) {
  ClientOptions options = ClientOptionsFor(context);
  options.tls = internal::WithEnvironment(options.tls);
  internal::Lookups lookups(options, internal::SplitAddresses(client.address()));
  const auto found = lookups.Find(options.unreachable_timeout);
  if (!found.ok()) return found.refusal();
  grpc::ClientContext call;
  (*found)->Authorize(call);
  call.set_deadline(internal::WallTimeIn(kChangePatience));
  Answer answer;
  const grpc::Status status = ((*found)->admin.get()->*method)(&call, request, &answer);
  if (!status.ok()) return internal::AnswerRefusal(status, **found);
  return answer.problem();
}

}  // namespace

Result<std::string> UpgradeStore(const Context& context, const Client& client, int32_t to) {
  v1::UpgradeStoreRequest request;
  request.set_to(to);
  return Ask<v1::UpgradeStoreResponse>(context, client, request, &v1::AdminService::Stub::UpgradeStore);
}

Result<std::string> InitQuorum(const Context& context, const Client& client, bool all_brokers_stopped) {
  v1::InitQuorumRequest request;
  request.set_all_brokers_stopped(all_brokers_stopped);
  return Ask<v1::InitQuorumResponse>(context, client, request, &v1::AdminService::Stub::InitQuorum);
}

}  // namespace distlock::cli
