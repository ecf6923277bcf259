// SPDX-License-Identifier: Apache-2.0
//
// The admin service: it makes the right reactor for each method. Calls come in on the CallThreads; `frontend` and
// `facts` outlive it.
#pragma once

#include "distlock/v1/admin_service.grpc.pb.h"
#include "rpc/admin_authorizer.h"
#include "rpc/call/admin_calls.h"
#include "rpc/engine/call_threads.h"
#include "rpc/frontend.h"

namespace distlock::rpc {

template <typename Base>
using RawAdmin = v1::AdminService::WithRawMethod_GetStatus<v1::AdminService::WithRawMethod_ListSessions<
    v1::AdminService::WithRawMethod_ForceRelease<v1::AdminService::WithRawMethod_Drain<
        v1::AdminService::WithRawMethod_CheckAccess<v1::AdminService::WithRawMethod_Reload<
            v1::AdminService::WithRawMethod_UpgradeStore<v1::AdminService::WithRawMethod_InitQuorum<Base>>>>>>>>;

class AdminService final : public RawAdmin<v1::AdminService::Service> {
 public:
  AdminService(Frontend& frontend, const BrokerFacts& facts, AdminAuthorizer authorizer)
      : frontend_(frontend), facts_(facts), authorizer_(authorizer) {}

  // Starts to accept calls. The server of this service must run already.
  void Open(CallThreads& threads);

 private:
  Frontend& frontend_;
  const BrokerFacts& facts_;
  const AdminAuthorizer authorizer_;
};

}  // namespace distlock::rpc
