// SPDX-License-Identifier: Apache-2.0
#include "rpc/admin_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/call/force_call.h"

namespace distlock::rpc {
namespace {

// The address of the caller, and its name if the connection has authenticated one.
std::string CallerOf(const UnaryReactor::Incoming& call) {
  std::string caller = call.PeerName();
  const auto auth = call.context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return caller;
  for (const grpc::string_ref& name : auth->GetPeerIdentity()) {
    absl::StrAppend(&caller, " ", std::string(name.data(), name.size()));
  }
  return caller;
}

}  // namespace

void AdminService::Open(CallThreads& threads) {
  threads.OpenUnary(*this, &AdminService::RequestGetStatus,
                    [this](auto call) { UnaryCall::Serve<GetStatusCall>(frontend_, std::move(call), facts_); });
  threads.OpenUnary(*this, &AdminService::RequestListSessions,
                    [this](auto call) { UnaryCall::Serve<ListSessionsCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &AdminService::RequestForceRelease, [this](auto call) {
    std::string caller = CallerOf(*call);
    UnaryCall::Serve<ForceReleaseCall>(frontend_, std::move(call), std::move(caller));
  });
  threads.OpenUnary(*this, &AdminService::RequestDrain,
                    [this](auto call) { UnaryCall::Serve<DrainCall>(frontend_, std::move(call), facts_); });
}

}  // namespace distlock::rpc
