// SPDX-License-Identifier: Apache-2.0
#include "main/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distlock/wire/given_file.h"

namespace distlock {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Bytes = std::unique_ptr<BIO, Freed<BIO_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

absl::Status Bad(std::string_view flag, const std::string& path, std::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("--", std::string(flag), ": '", path, "' ", std::string(what)));
}

std::string LastReason() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "no reason given" : reason;
}

absl::StatusOr<std::string> Read(std::string_view flag, const std::string& path) {
  wire::GivenFile file = wire::ReadGivenFile(path);
  if (!file.problem.empty()) {
    return Bad(flag, path, absl::StrCat(file.problem, "; name a file of PEM certificates or a key that may be read"));
  }
  if (file.text.empty()) return Bad(flag, path, "is empty; is it still being written?");
  return std::move(file.text);
}

Bytes BytesOf(const std::string& text) { return Bytes(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// All certificates of a PEM text, in order. Empty: there is none, or one cannot be parsed.
std::vector<Certificate> Certificates(const std::string& pem) {
  std::vector<Certificate> found;
  const Bytes bytes = BytesOf(pem);
  while (X509* next = PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr)) found.emplace_back(next);
  // The text ends where no further one begins; everything else is a broken certificate.
  const bool complete = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!complete) found.clear();
  return found;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&parts));
}

std::string Day(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone()); }

absl::Status CheckTimes(std::string_view flag, const std::string& path, X509* certificate, absl::Time now) {
  const absl::Time begin = TimeOf(X509_get0_notBefore(certificate));
  const absl::Time end = TimeOf(X509_get0_notAfter(certificate));
  if (now < begin) {
    return Bad(flag, path, absl::StrCat("is valid only from ", Day(begin), " on; check this machine's clock"));
  }
  if (now >= end) return Bad(flag, path, absl::StrCat("expired at ", Day(end), "; put a new one in its place"));
  return absl::OkStatus();
}

bool MayServe(X509* certificate) {
  const uint32_t uses = X509_get_extended_key_usage(certificate);  // all of them when it names none
  return (uses & XKU_SSL_SERVER) != 0;
}

absl::Status CheckChain(const TlsPaths& paths, const std::vector<Certificate>& chain) {
  for (size_t i = 1; i < chain.size(); ++i) {
    if (X509_check_issued(chain[i].get(), chain[i - 1].get()) == X509_V_OK) continue;
    return Bad("tls-cert", paths.cert,
               absl::StrCat("has its certificates in a wrong order: number ", i + 1, " did not issue number ", i,
                            "; write the server's own first, then who issued it, and so on"));
  }
  return absl::OkStatus();
}

absl::Status CheckServer(const TlsPaths& paths, const TlsFiles& files, absl::Time now) {
  const std::vector<Certificate> chain = Certificates(files.material.cert);
  if (chain.empty()) {
    return Bad("tls-cert", paths.cert, "holds no PEM certificate, or a broken one; write -----BEGIN CERTIFICATE-----");
  }
  const Bytes bytes = BytesOf(files.material.key);
  char no_password[] = "";
  const Key key(PEM_read_bio_PrivateKey(bytes.get(), nullptr, nullptr, no_password));
  ERR_clear_error();
  if (key == nullptr) {
    return Bad("tls-key", paths.key, "holds no PEM private key, or one with a password; write it without a password");
  }
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return Bad("tls-key", paths.key,
               absl::StrCat("does not belong to the certificate in '", paths.cert, "' (both replaced?)"));
  }
  if (absl::Status ordered = CheckChain(paths, chain); !ordered.ok()) return ordered;
  for (const Certificate& certificate : chain) {
    if (absl::Status valid = CheckTimes("tls-cert", paths.cert, certificate.get(), now); !valid.ok()) return valid;
  }
  if (!MayServe(chain.front().get())) {
    return Bad("tls-cert", paths.cert,
               "is not for servers: its extended key usage lacks serverAuth; issue another one");
  }
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr || SSL_CTX_use_certificate(context.get(), chain.front().get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return Bad("tls-cert", paths.cert, absl::StrCat("is refused by OpenSSL: ", LastReason()));
  }
  return absl::OkStatus();
}

absl::Status CheckAuthorities(const TlsPaths& paths, TlsFiles& files, absl::Time now) {
  const std::vector<Certificate> authorities = Certificates(files.material.client_ca);
  if (authorities.empty()) {
    return Bad("tls-client-ca", paths.client_ca,
               "holds no PEM certificate, or a broken one; write -----BEGIN CERTIFICATE-----");
  }
  for (const Certificate& authority : authorities) {
    if (X509_check_ca(authority.get()) == 0) {
      return Bad("tls-client-ca", paths.client_ca,
                 "holds a certificate that is no authority (CA:TRUE is missing); write those that sign clients'");
    }
    if (absl::Status valid = CheckTimes("tls-client-ca", paths.client_ca, authority.get(), now); !valid.ok()) {
      return valid;
    }
    files.client_ca_not_after = std::min(files.client_ca_not_after, TimeOf(X509_get0_notAfter(authority.get())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsFiles> LoadTls(const TlsPaths& paths, absl::Time now) {
  ERR_clear_error();
  TlsFiles files;
  auto cert = Read("tls-cert", paths.cert);
  if (!cert.ok()) return cert.status();
  auto key = Read("tls-key", paths.key);
  if (!key.ok()) return key.status();
  files.material = {*std::move(cert), *std::move(key), ""};
  if (absl::Status good = CheckServer(paths, files, now); !good.ok()) return good;
  files.cert_not_after = TimeOf(X509_get0_notAfter(Certificates(files.material.cert).front().get()));
  if (paths.client_ca.empty()) return files;
  auto authorities = Read("tls-client-ca", paths.client_ca);
  if (!authorities.ok()) return authorities.status();
  files.material.client_ca = *std::move(authorities);
  if (absl::Status good = CheckAuthorities(paths, files, now); !good.ok()) return good;
  return files;
}

}  // namespace distlock
