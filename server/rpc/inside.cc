// SPDX-License-Identifier: Apache-2.0
#include "rpc/inside.h"

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <openssl/crypto.h>

#include <charconv>
#include <vector>

#include "rpc/callers.h"

namespace distlock::rpc {
namespace {

constexpr char kSecret[] = "distlock-inside-secret";
constexpr char kPeer[] = "distlock-inside-peer";
constexpr char kKeepsSecrets[] = "distlock-inside-keeps-secrets";
constexpr char kUnixIds[] = "distlock-inside-unix-ids";  // uid gid groups..., in decimal

std::string_view Value(const grpc::ServerContext& context, const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string_view() : std::string_view(found->second.data(), found->second.size());
}

std::optional<access::UnixPeer> ReadIds(std::string_view text) {
  std::vector<uint32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    uint32_t id = 0;
    const auto read = std::from_chars(at, end, id);
    if (read.ec != std::errc()) return std::nullopt;
    ids.push_back(id);
    at = read.ptr + 1;
  }
  if (ids.size() < 2) return std::nullopt;
  return access::UnixPeer{.uid = ids[0], .gid = ids[1], .groups = {ids.begin() + 2, ids.end()}};
}

}  // namespace

void Inside::Open(std::string secret) {
  secret_ = std::move(secret);
  open_.store(true, std::memory_order_release);
}

bool Inside::IsInside(const grpc::ServerContext& context, const acceptor::Connection* connection) const {
  if (connection != nullptr || !open_.load(std::memory_order_acquire)) return false;
  const std::string_view shown = Value(context, kSecret);
  return shown.size() == secret_.size() && CRYPTO_memcmp(shown.data(), secret_.data(), secret_.size()) == 0;
}

std::string Inside::PeerOf(const grpc::ServerContext& context, const acceptor::Connection* connection) const {
  if (IsInside(context, connection)) return std::string(Value(context, kPeer));
  return connection != nullptr ? connection->address : context.peer();
}

std::string Inside::CountedPeerOf(const grpc::ServerContext& context, const acceptor::Connection* connection) const {
  return connection != nullptr ? connection->peer : PeerOf(context, connection);
}

std::optional<acceptor::Kind> Inside::KindOf(const grpc::ServerContext& context,
                                             const acceptor::Connection* connection) const {
  if (IsInside(context, connection))
    return Value(context, kPeer).starts_with("unix:") ? acceptor::Kind::kUnix : acceptor::Kind::kTcp;
  return connection != nullptr ? std::optional(connection->kind) : std::nullopt;
}

access::PeerFacts Inside::FactsOf(const grpc::ServerContext& context, const acceptor::Connection* connection,
                                  const access::UnixPeerOf& unix_peer_of) const {
  if (!IsInside(context, connection)) return rpc::FactsOf(context, connection, unix_peer_of);
  access::PeerFacts facts{.peer = std::string(Value(context, kPeer))};
  facts.unix_peer = ReadIds(Value(context, kUnixIds));
  facts.keeps_secrets = !Value(context, kKeepsSecrets).empty();
  const auto& metadata = context.client_metadata();
  for (auto [entry, end] = metadata.equal_range(kAuthorization); entry != end; ++entry) {
    facts.authorization.emplace_back(entry->second.data(), entry->second.size());
  }
  return facts;
}

void InsidePass::Sign(const access::PeerFacts& facts, grpc::ClientContext* context) const {
  context->AddMetadata(kSecret, secret);
  context->AddMetadata(kPeer, facts.peer);
  if (facts.keeps_secrets) context->AddMetadata(kKeepsSecrets, "1");
  if (facts.unix_peer) {
    std::string ids = std::to_string(facts.unix_peer->uid) + " " + std::to_string(facts.unix_peer->gid);
    for (const uint32_t group : facts.unix_peer->groups) ids += " " + std::to_string(group);
    context->AddMetadata(kUnixIds, ids);
  }
  for (const std::string& value : facts.authorization) context->AddMetadata(kAuthorization, value);
}

}  // namespace distlock::rpc
