// SPDX-License-Identifier: Apache-2.0
//
// How connections come to a gRPC server: the acceptor accepts them, and what it lets in is handed over. Also tells
// whose connection a call came on.
//
// Open and Start once, in this order, by one thread; the rest on any. Outlives the server and all of its calls.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "acceptor/acceptor.h"
#include "rpc/frame_defence.h"
#include "rpc/tls.h"

namespace distlock::rpc {

struct Encryption {
  const TlsShelf* shelf = nullptr;  // null: TCP in plain text. Outlives the server
  TlsClientAuth client_auth = TlsClientAuth::kOff;
};

// The reflection library adds itself to every server of a process that links it; this option removes it.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override;
};

class GrpcAcceptor {
 public:
  // Listens: callers wait in the kernel's queue until Start. FailedPrecondition, in one line.
  absl::Status Open(acceptor::AcceptorOptions options, const Encryption& encryption, grpc::ServerBuilder& builder);
  void Start(grpc::Server& server);
  // Returns when nothing is handed over any more. Connections go on.
  void StopAccepting() { acceptor_->StopAccepting(); }

  // A call's connection, by grpc::ServerContext::peer(). Null: the connection is gone. Where this gRPC hides on which
  // connection a call came, callers of unix sockets are one, of whom no more is known.
  std::shared_ptr<acceptor::Connection> ConnectionOf(const std::string& grpc_peer) const;
  bool knows_unix_callers() const { return knows_unix_callers_; }

  // As acceptor::Acceptor's.
  acceptor::Deaths* deaths() { return acceptor_->deaths(); }
  const std::vector<std::string>& addresses() const { return acceptor_->addresses(); }
  size_t max_connections() const { return acceptor_->max_connections(); }
  size_t connections() const { return acceptor_->connections(); }
  std::string DeadListener() const { return acceptor_->DeadListener(); }

 private:
  bool knows_unix_callers_ = false;
  std::unique_ptr<acceptor::Acceptor> acceptor_;
  // For TCP connections; null when there are none.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> external_;
  std::unique_ptr<ExcessListener> excess_;  // from Start on
};

}  // namespace distlock::rpc
