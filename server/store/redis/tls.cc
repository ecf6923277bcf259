// SPDX-License-Identifier: Apache-2.0
#include "store/redis/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "store/text.h"

namespace distlock::store {
namespace {

struct ContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

std::string LastReason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "" : reason;
}

absl::Status BadFile(std::string_view what, const std::string& path) {
  return absl::InvalidArgumentError(Cat("cannot use ", what, " '", path, "': ", LastReason()));
}

bool IsAddress(const std::string& host) {
  unsigned char out[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), out) == 1 || inet_pton(AF_INET6, host.c_str(), out) == 1;
}

}  // namespace

void TlsDeleter::operator()(ssl_st* ssl) const { SSL_free(ssl); }

absl::StatusOr<TlsPtr> NewTls(const TlsFiles& tls, const std::string& host) {
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, ContextDeleter> context(SSL_CTX_new(TLS_client_method()));
  if (!context) return absl::ResourceExhaustedError("cannot make a TLS context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (tls.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (SSL_CTX_load_verify_locations(context.get(), tls.ca.c_str(), nullptr) != 1) {
    return BadFile("the CA file", tls.ca);
  }
  if (!tls.cert.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), tls.cert.c_str()) != 1) {
      return BadFile("the client certificate", tls.cert);
    }
    if (SSL_CTX_use_PrivateKey_file(context.get(), tls.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      return BadFile("the client key", tls.key);
    }
  }
  TlsPtr ssl(SSL_new(context.get()));
  if (!ssl) return absl::ResourceExhaustedError("cannot make a TLS session");
  const std::string& name = tls.sni.empty() ? host : tls.sni;
  if (IsAddress(name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), name.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl.get(), name.c_str());
    SSL_set1_host(ssl.get(), name.c_str());
  }
  return ssl;
}

std::string TlsFailure(const ssl_st* ssl) {
  const long verified = SSL_get_verify_result(ssl);
  std::string reason = LastReason();
  if (verified != X509_V_OK) {
    return Cat("the server's certificate is not accepted: ", X509_verify_cert_error_string(verified));
  }
  return reason.empty() ? "" : Cat("TLS: ", reason);
}

bool TlsIsOpen(const ssl_st* ssl) { return SSL_is_init_finished(ssl) != 0; }

bool TlsWaitsForPeer(const ssl_st* ssl) { return SSL_want_read(ssl); }

bool TlsHasBuffered(const ssl_st* ssl) { return SSL_pending(ssl) > 0; }

}  // namespace distlock::store
