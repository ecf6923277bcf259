// SPDX-License-Identifier: Apache-2.0
//
// TLS of the TCP listeners, with a certificate that can be replaced while connections live. Main reads and checks the
// files; a handshake only asks whether there is something newer.
//
// Why not the certificate providers of gRPC: the one of 1.51 throws away what works before it has looked at what is
// new.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace distlock::rpc {

// PEM, checked.
struct TlsMaterial {
  std::string cert;  // the chain, the server's own first
  std::string key;
  std::string client_ca;  // "": clients are not asked for certificates
};

// Holds the next handshake's files. Any thread. Outlives the server.
class TlsShelf {
 public:
  // Before the server starts, for the first time.
  void Put(TlsMaterial material);
  // The newest, and its number. Null before the first Put.
  std::pair<std::shared_ptr<const TlsMaterial>, uint64_t> Get() const;

 private:
  mutable std::mutex mu_;
  std::shared_ptr<const TlsMaterial> material_;  // guarded by mu_
  uint64_t number_ = 0;                          // guarded by mu_
};

enum class TlsClientAuth { kRequire, kOptional, kOff };

// For one port or acceptor. `shelf` outlives it.
std::shared_ptr<grpc::ServerCredentials> MakeBrokerCredentials(const TlsShelf& shelf, TlsClientAuth client_auth);

// TLS 1.3 at least, for the whole process. To be called before gRPC is used, by a process with one thread.
void RequireTls13();

}  // namespace distlock::rpc
