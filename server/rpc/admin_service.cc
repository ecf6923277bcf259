// SPDX-License-Identifier: Apache-2.0
#include "rpc/admin_service.h"

#include <string>
#include <utility>

#include "rpc/call/access_call.h"
#include "rpc/call/force_call.h"

namespace distlock::rpc {

void AdminService::Open(CallThreads& threads) {
  threads.OpenUnary(*this, &AdminService::RequestGetStatus,
                    [this](auto call) { UnaryCall::Serve<GetStatusCall>(frontend_, std::move(call), facts_); });
  threads.OpenUnary(*this, &AdminService::RequestListSessions,
                    [this](auto call) { UnaryCall::Serve<ListSessionsCall>(frontend_, std::move(call)); });
  const auto refuses = [this](auto& call, const char* method) {
    const auto& inside = frontend_.inside;
    if (authorizer_.Admits(inside.KindOf(call->context, call->connection.get()))) return false;
    v1::Refusal refusal = AdminAuthorizer::Refusal(method, inside.PeerOf(call->context, call->connection.get()));
    UnaryCall::Serve<RefusedCall>(frontend_, std::move(call), std::move(refusal));
    return true;
  };
  threads.OpenUnary(*this, &AdminService::RequestForceRelease, [this, refuses](auto call) {
    if (!refuses(call, "ForceRelease")) UnaryCall::Serve<ForceReleaseCall>(frontend_, std::move(call));
  });
  threads.OpenUnary(*this, &AdminService::RequestDrain, [this, refuses](auto call) {
    if (!refuses(call, "Drain")) UnaryCall::Serve<DrainCall>(frontend_, std::move(call), facts_);
  });
  threads.OpenUnary(*this, &AdminService::RequestReload, [this, refuses](auto call) {
    if (!refuses(call, "Reload")) UnaryCall::Serve<ReloadCall>(frontend_, std::move(call), facts_);
  });
  threads.OpenUnary(*this, &AdminService::RequestUpgradeStore, [this, refuses](auto call) {
    if (!refuses(call, "UpgradeStore")) UnaryCall::Serve<UpgradeStoreCall>(frontend_, std::move(call), facts_);
  });
  threads.OpenUnary(*this, &AdminService::RequestInitQuorum, [this, refuses](auto call) {
    if (!refuses(call, "InitQuorum")) UnaryCall::Serve<InitQuorumCall>(frontend_, std::move(call), facts_);
  });
  threads.OpenUnary(*this, &AdminService::RequestCheckAccess, [this](auto call) {
    const auto& inside = frontend_.inside;
    const bool admits = authorizer_.Admits(inside.KindOf(call->context, call->connection.get()));
    std::string obstacle =
        admits ? "" : AdminAuthorizer::Obstacle(inside.PeerOf(call->context, call->connection.get()));
    UnaryCall::Serve<CheckAccessCall>(frontend_, std::move(call), std::move(obstacle));
  });
}

}  // namespace distlock::rpc
