// SPDX-License-Identifier: Apache-2.0
#include "store/redis/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "distlock/wire/given_file.h"
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

absl::Status BadFile(std::string_view what, const std::string& path, std::string_view why) {
  return absl::InvalidArgumentError(Cat("cannot use ", what, " '", path, "': ", why));
}

using Bytes = std::unique_ptr<BIO, decltype([](BIO* bytes) { BIO_free(bytes); })>;
using Certificate = std::unique_ptr<X509, decltype([](X509* one) { X509_free(one); })>;
using Key = std::unique_ptr<EVP_PKEY, decltype([](EVP_PKEY* key) { EVP_PKEY_free(key); })>;

// OpenSSL would read by itself whatever has the name, and wait for who writes it.
template <typename Use>
absl::Status UseFile(std::string_view what, const std::string& path, Use use) {
  const wire::GivenFile file = wire::ReadGivenFile(path);
  if (!file.problem.empty()) return BadFile(what, path, Cat("it ", file.problem));
  const Bytes bytes(BIO_new_mem_buf(file.text.data(), static_cast<int>(file.text.size())));
  return bytes != nullptr && use(bytes.get()) ? absl::OkStatus() : BadFile(what, path, LastReason());
}

Certificate Next(BIO* pem) {
  char no_password[] = "";
  return Certificate(PEM_read_bio_X509_AUX(pem, nullptr, nullptr, no_password));
}

// True: Next read nothing because the text has ended.
bool AtEnd() {
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (at_end) ERR_clear_error();
  return at_end;
}

bool TrustAll(SSL_CTX* context, BIO* pem) {
  int count = 0;
  for (Certificate one = Next(pem); one != nullptr; one = Next(pem), ++count) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get()) != 1) return false;
  }
  return count > 0 && AtEnd();
}

bool UseChain(SSL_CTX* context, BIO* pem) {
  const Certificate own = Next(pem);
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  for (Certificate one = Next(pem); one != nullptr; one = Next(pem)) {
    if (SSL_CTX_add1_chain_cert(context, one.get()) != 1) return false;
  }
  return AtEnd();
}

bool UseKey(SSL_CTX* context, BIO* pem) {
  char no_password[] = "";
  const Key key(PEM_read_bio_PrivateKey(pem, nullptr, nullptr, no_password));
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

absl::Status UseFiles(SSL_CTX* context, const TlsFiles& tls) {
  if (tls.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (auto used = UseFile("the CA file", tls.ca, [&](BIO* pem) { return TrustAll(context, pem); }); !used.ok()) {
    return used;
  }
  if (tls.cert.empty()) return absl::OkStatus();
  auto used = UseFile("the client certificate", tls.cert, [&](BIO* pem) { return UseChain(context, pem); });
  used.Update(UseFile("the client key", tls.key, [&](BIO* pem) { return UseKey(context, pem); }));
  return used;
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
  if (absl::Status used = UseFiles(context.get(), tls); !used.ok()) return used;
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
