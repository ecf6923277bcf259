// SPDX-License-Identifier: Apache-2.0
#include "rpc/admin_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/call/access_call.h"
#include "rpc/call/force_call.h"

namespace distlock::rpc {
void AdminService::Open(CallThreads& threads) {
  threads.OpenUnary(*this, &AdminService::RequestGetStatus,
                    [this](auto call) { UnaryCall::Serve<GetStatusCall>(frontend_, std::move(call), facts_); });
  threads.OpenUnary(*this, &AdminService::RequestListSessions,
                    [this](auto call) { UnaryCall::Serve<ListSessionsCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &AdminService::RequestForceRelease,
                    [this](auto call) { UnaryCall::Serve<ForceReleaseCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &AdminService::RequestDrain,
                    [this](auto call) { UnaryCall::Serve<DrainCall>(frontend_, std::move(call), facts_); });
  threads.OpenUnary(*this, &AdminService::RequestCheckAccess,
                    [this](auto call) { UnaryCall::Serve<CheckAccessCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &AdminService::RequestReload,
                    [this](auto call) { UnaryCall::Serve<ReloadCall>(frontend_, std::move(call), facts_); });
}

}  // namespace distlock::rpc
