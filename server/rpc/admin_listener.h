// SPDX-License-Identifier: Apache-2.0
//
// AdminService at addresses of its own, apart from those where locks are served: --admin-listen.
//
// Owned by the Server. Start and Stop on main's thread. `frontend` and `facts` outlive it.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/admin_service.h"
#include "rpc/engine/call_threads.h"
#include "rpc/grpc_acceptor.h"

namespace distlock::rpc {

class AdminListener {
 public:
  // FailedPrecondition, in one line, when it cannot listen on an address. REQUIRES: `acceptor` has one.
  static absl::StatusOr<std::unique_ptr<AdminListener>> Start(acceptor::AcceptorOptions acceptor,
                                                              const Encryption& encryption, Frontend& frontend,
                                                              const BrokerFacts& facts);
  ~AdminListener() { Stop({}); }

  // As bound, with the port that the kernel chose.
  const std::vector<std::string>& addresses() const { return acceptor_.addresses(); }
  size_t connections() const { return acceptor_.connections(); }
  std::string DeadListener() const { return acceptor_.DeadListener(); }

  void Stop(core::Duration grace);

 private:
  AdminListener(Frontend& frontend, const BrokerFacts& facts)
      : service_(frontend, facts, {.unix_peers = true, .tcp_peers = true}) {}

  AdminService service_;
  GrpcAcceptor acceptor_;
  std::unique_ptr<CallThreads> threads_;  // outlives server_
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace distlock::rpc
