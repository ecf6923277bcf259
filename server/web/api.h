// SPDX-License-Identifier: Apache-2.0
//
// The HTTP face: requests of the contract as JSON over HTTP, as routes.h lists them, and a description of them. It asks
// the gRPC server of this process, which validates, checks rights and decides.
//
// Owned by main; ends before that server does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "http/server.h"
#include "rpc/inside.h"
#include "web/calls.h"
#include "web/routes.h"

namespace distlock::web {

struct ApiOptions {
  std::string address;              // as http::ServerOptions
  unsigned max_connections = 1000;  // beyond that, or beyond half of it by one peer, 503
  std::vector<std::string> hosts;   // names of this broker in Host, in lower case
  rpc::InsidePass pass;
};

class Api {
 public:
  static absl::StatusOr<std::unique_ptr<Api>> Start(ApiOptions options);
  // Waits for half a second at most until the calls that the gRPC server has ended are told. Then ends what waits: 503,
  // and the calls are cancelled.
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // The broker drains: each answer says that its connection ends. Any thread.
  void AnnounceEnd() { server_->AnnounceEnd(); }

  const std::string& address() const { return server_->address(); }  // as bound

 private:
  explicit Api(ApiOptions options);
  using Exchange = std::shared_ptr<http::Exchange>;
  void Serve(const Exchange& exchange);
  void Ask(const Exchange& exchange, const Matched& matched);
  void AskOnce(const Exchange& exchange, const Route& route, const google::protobuf::Message& request);
  // Releases what was granted to a client that has left, unless a repeat of its request is to find it.
  void GiveBack(const http::Exchange& exchange, const Route& route, const grpc::ByteBuffer& answer);
  void AskForMany(const Exchange& exchange, const Route& route, const google::protobuf::Message& request);

  const ApiOptions options_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace distlock::web
