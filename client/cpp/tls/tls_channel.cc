// SPDX-License-Identifier: Apache-2.0
#include "tls_channel.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <absl/synchronization/mutex.h>
#if __has_include(<grpc/support/log.h>)
#include <grpc/support/log.h>
#endif
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <cstdlib>
#include <utility>

#include "distlock/wire/given_file.h"

namespace distlock::internal {
namespace {

struct File {
  const char* variable;
  std::string TlsOptions::* path;
  std::string grpc::SslCredentialsOptions::* text;
  const char* begins;  // with this each PEM block of its kind does
};

constexpr File kFiles[] = {
    {"DISTLOCK_TLS_CA", &TlsOptions::ca, &grpc::SslCredentialsOptions::pem_root_certs, "-----BEGIN CERTIFICATE"},
    {"DISTLOCK_TLS_CERT", &TlsOptions::cert, &grpc::SslCredentialsOptions::pem_cert_chain, "-----BEGIN CERTIFICATE"},
    {"DISTLOCK_TLS_KEY", &TlsOptions::key, &grpc::SslCredentialsOptions::pem_private_key, "PRIVATE KEY-----"},
};

void FromEnvironment(const char* variable, std::string& value) {
  const char* const found = std::getenv(variable);
  if (value.empty() && found != nullptr) value = found;
}

std::string Read(const File& file, const TlsOptions& tls, grpc::SslCredentialsOptions& into) {
  const std::string& path = tls.*file.path;
  if (path.empty()) return "";
  wire::GivenFile given = wire::ReadGivenFile(path);
  if (!given.problem.empty()) return absl::StrCat(file.variable, ": '", path, "' ", given.problem);
  if (!absl::StrContains(given.text, file.begins)) {
    return absl::StrCat(file.variable, ": '", path, "' holds no PEM block ", file.begins);
  }
  into.*file.text = std::move(given.text);
  return "";
}

std::string ReadAll(const TlsOptions& tls, grpc::SslCredentialsOptions& into) {
  if (tls.cert.empty() != tls.key.empty()) {
    return "DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY belong together: give both, or none";
  }
  for (const File& file : kFiles) {
    if (std::string problem = Read(file, tls, into); !problem.empty()) return problem;
  }
  return "";
}

// The files as they were read last.
class LastRead {
 public:
  grpc::SslCredentialsOptions Of(const TlsOptions& tls) {
    const std::string name = absl::StrCat(tls.ca, "\n", tls.cert, "\n", tls.key);
    grpc::SslCredentialsOptions read;
    const bool good = ReadAll(tls, read).empty();
    absl::MutexLock lock(&mu_);
    if (good) read_[name] = read;
    return read_[name];
  }

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, grpc::SslCredentialsOptions> read_ ABSL_GUARDED_BY(mu_);
};

LastRead& Files() {
  static auto* const files = new LastRead;  // calls may outlive static objects
  return *files;
}

}  // namespace

TlsOptions WithEnvironment(TlsOptions tls) {
  for (const File& file : kFiles) FromEnvironment(file.variable, tls.*file.path);
  FromEnvironment("DISTLOCK_TLS_SERVER_NAME", tls.server_name);
  return tls;
}

std::string TlsProblem(const TlsOptions& tls) {
  grpc::SslCredentialsOptions ignored;
  return ReadAll(tls, ignored);
}

std::string ConnectFailure(const std::string& address, const std::string& said) {
  const auto says = [&](const char* words) { return absl::StrContains(said, words); };
  // Other failures are of a connection that was there.
  if (!says("failed to connect to all addresses") && !says("empty address list")) return said;
  const bool secure = absl::StrContains(address, kTlsScheme);
  const bool hangs_up = says("Connection reset") || says("Socket closed") || says("EOF") || says("Broken pipe");
  if (secure && says("certificate verify failed")) {
    return "the broker's certificate is not signed by an authority that this machine trusts, or has expired; "
           "DISTLOCK_TLS_CA names the file of its authority";
  }
  if (secure && says("is not in peer certificate")) {
    return "the broker's certificate is for other names than that of the address; DISTLOCK_TLS_SERVER_NAME sets the "
           "name that it must have";
  }
  if (secure && says("wrong version number")) return "it speaks no TLS; without it, the address is host:port";
  if (secure && says("empty address list")) {
    return "DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY hold no certificate and the key of this certificate";
  }
  if (secure && hangs_up) {
    return "it hangs up during the TLS handshake: it wants a client certificate of an authority that it trusts "
           "(DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY), or it speaks no TLS (the address is host:port then)";
  }
  const bool is_socket = absl::StartsWith(address, "unix:");
  return hangs_up && !is_socket ? "it hangs up at once; if it wants TLS, the address is tls://host:port" : said;
}

void SilenceGrpcLog() {
#if __has_include(<grpc/support/log.h>)
  const char* const wanted = std::getenv("GRPC_VERBOSITY");
  if (wanted == nullptr || *wanted == '\0') gpr_set_log_function([](gpr_log_func_args*) {});
#endif
}

WayTo FindWay(const std::string& address, const TlsOptions& tls, grpc::ChannelArguments& args) {
  if (!absl::StartsWith(address, kTlsScheme)) return {address, grpc::InsecureChannelCredentials()};
  if (!tls.server_name.empty()) args.SetSslTargetNameOverride(tls.server_name);
  return {std::string(absl::StripPrefix(address, kTlsScheme)), grpc::SslCredentials(Files().Of(tls))};
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const TlsOptions& tls,
                                           grpc::ChannelArguments& args) {
  const WayTo way = FindWay(address, tls, args);
  return grpc::CreateCustomChannel(way.target, way.credentials, args);
}

}  // namespace distlock::internal
