// SPDX-License-Identifier: Apache-2.0
#include "rpc/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <cstdlib>
#include <utility>

namespace distlock::rpc {
namespace {

grpc_ssl_client_certificate_request_type RequestOf(TlsClientAuth client_auth) {
  switch (client_auth) {
    case TlsClientAuth::kRequire:
      return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    case TlsClientAuth::kOptional:
      return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case TlsClientAuth::kOff:
      break;
  }
  return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
}

// The newest files of one port. gRPC asks under a mutex of its own.
struct Given {
  const TlsShelf* shelf = nullptr;
  uint64_t number = 0;
};

grpc_ssl_certificate_config_reload_status Fetch(void* user_data, grpc_ssl_server_certificate_config** config) {
  auto& given = *static_cast<Given*>(user_data);
  const auto [material, number] = given.shelf->Get();
  if (number == given.number) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair{material->key.c_str(), material->cert.c_str()};
  // gRPC 1.51 wants authorities also where clients are not asked for certificates; it does not use them then.
  const std::string& roots = material->client_ca.empty() ? material->cert : material->client_ca;
  *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  given.number = number;
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

grpc_server_credentials* NewCredentials(TlsClientAuth client_auth, Given& given) {
  return grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(RequestOf(client_auth), Fetch, &given));
}

// `given_` comes first: the credentials refer to it.
#ifdef DISTLOCK_GRPC_WRAPS_CREDENTIALS
struct Holder {
  Given given_;
};
class BrokerCredentials final : private Holder, public grpc::ServerCredentials {
 public:
  BrokerCredentials(const TlsShelf& shelf, TlsClientAuth client_auth)
      : Holder{{&shelf, 0}}, grpc::ServerCredentials(NewCredentials(client_auth, given_)) {}
};
#else
class BrokerCredentials final : public grpc::ServerCredentials {
 public:
  BrokerCredentials(const TlsShelf& shelf, TlsClientAuth client_auth)
      : given_{&shelf, 0}, credentials_(NewCredentials(client_auth, given_)) {}
  ~BrokerCredentials() override { grpc_server_credentials_release(credentials_); }
  // Callers are told apart when their calls arrive.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  Given given_;
  grpc_server_credentials* const credentials_;
};
#endif

}  // namespace

void TlsShelf::Put(TlsMaterial material) {
  auto next = std::make_shared<TlsMaterial>(std::move(material));
  std::lock_guard lock(mu_);
  material_ = std::move(next);
  ++number_;
}

std::pair<std::shared_ptr<const TlsMaterial>, uint64_t> TlsShelf::Get() const {
  std::lock_guard lock(mu_);
  return {material_, number_};
}

std::shared_ptr<grpc::ServerCredentials> MakeBrokerCredentials(const TlsShelf& shelf, TlsClientAuth client_auth) {
  return std::make_shared<BrokerCredentials>(shelf, client_auth);
}

void RequireTls13() {
  // gRPC 1.51 has no setting for it. This suite is one that no certificate can serve, so that TLS 1.2 finds nothing to
  // agree on; the suites of TLS 1.3 are not concerned.
  setenv("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305", /*overwrite=*/1);
}

}  // namespace distlock::rpc
