// SPDX-License-Identifier: Apache-2.0
#include "rpc/arrival.h"

#include <utility>

#include "rpc/callers.h"

namespace distlock::rpc {

std::variant<Subject, v1::Refusal> Arrive(Frontend& frontend, const grpc::ServerContext& context,
                                          const acceptor::Connection* connection) {
  Authorizer& authorizer = frontend.authorizer;
  if (!authorizer.asks()) return Subject();
  const bool is_as_its_connection = connection != nullptr && !frontend.unix_peer_of && !CarriesProof(context);
  if (is_as_its_connection) {
    auto known = frontend.known_callers.Find(connection->id, authorizer.generation(), authorizer.now_s());
    if (known) return *std::move(known);
  }
  auto arrived = authorizer.Arrive(frontend.inside.FactsOf(context, connection, frontend.unix_peer_of));
  const auto* subject = std::get_if<Subject>(&arrived);
  if (is_as_its_connection && subject != nullptr) frontend.known_callers.Remember(connection->id, *subject);
  return arrived;
}

}  // namespace distlock::rpc
