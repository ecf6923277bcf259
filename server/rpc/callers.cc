// SPDX-License-Identifier: Apache-2.0
#include "rpc/callers.h"

#include <grpc/grpc_security_constants.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <string>
#include <vector>

namespace distlock::rpc {
namespace {

std::vector<std::string> ValuesOf(const grpc::AuthContext& auth, const char* property) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : auth.FindPropertyValues(property)) {
    values.emplace_back(value.data(), value.size());
  }
  return values;
}

// For the first certificate in `pem`; 0, which has passed, when it cannot be read.
int64_t NotAfter(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                      &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      bio == nullptr ? nullptr : PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), &X509_free);
  std::tm time{};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &time) != 1) return 0;
  return timegm(&time);
}

bool IsEncrypted(const grpc::AuthContext& auth) {
  const auto types = ValuesOf(auth, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return types.size() == 1 && (types.front() == "ssl" || types.front() == "tls");
}

bool StaysHere(const acceptor::Connection& connection) {
  const std::string& address = connection.address;
  return connection.kind == acceptor::Kind::kUnix || address.starts_with("ipv4:127.") ||
         address.starts_with("ipv6:[::1]:");
}

std::optional<access::UnixPeer> UnixPeerOf(const acceptor::Connection& connection) {
  if (connection.kind != acceptor::Kind::kUnix || !connection.who) return std::nullopt;
  return access::UnixPeer{.uid = connection.who->uid,
                          .gid = connection.who->gid,
                          .groups = {connection.who->groups.begin(), connection.who->groups.end()}};
}

}  // namespace

std::optional<access::TlsPeer> TlsPeerOf(const grpc::AuthContext& auth) {
  if (!IsEncrypted(auth) || !auth.IsPeerAuthenticated()) return std::nullopt;
  const std::vector<std::string> pem = ValuesOf(auth, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.empty()) return std::nullopt;
  return access::TlsPeer{.uris = ValuesOf(auth, GRPC_PEER_URI_PROPERTY_NAME),
                         .dns = ValuesOf(auth, GRPC_PEER_DNS_PROPERTY_NAME),
                         .not_after_s = NotAfter(pem.front())};
}

bool CarriesProof(const grpc::ServerContext& context) { return context.client_metadata().contains(kAuthorization); }

access::PeerFacts FactsOf(const grpc::ServerContext& context, const acceptor::Connection* connection,
                          const access::UnixPeerOf& unix_peer_of) {
  access::PeerFacts facts{.peer = connection == nullptr ? context.peer() : connection->address};
  facts.known = connection != nullptr;
  if (!facts.known) return facts;
  facts.unix_peer = unix_peer_of ? unix_peer_of(facts.peer) : UnixPeerOf(*connection);
  const auto auth = context.auth_context();
  if (auth != nullptr) facts.tls = TlsPeerOf(*auth);
  facts.keeps_secrets = StaysHere(*connection) || (auth != nullptr && IsEncrypted(*auth));
  const auto& metadata = context.client_metadata();
  for (auto [entry, end] = metadata.equal_range(kAuthorization); entry != end; ++entry) {
    facts.authorization.emplace_back(entry->second.data(), entry->second.size());
  }
  return facts;
}

}  // namespace distlock::rpc
