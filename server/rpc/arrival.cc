// SPDX-License-Identifier: Apache-2.0
#include "rpc/arrival.h"

#include <utility>

#include "rpc/callers.h"

namespace distlock::rpc {

std::variant<Visitor, v1::Refusal> Arrive(Frontend& frontend, const grpc::ServerContext& context,
                                          const door::Visitor* connection) {
  Gate& gate = frontend.gate;
  if (!gate.asks()) return Visitor();
  const bool is_as_its_connection = connection != nullptr && !frontend.unix_peer_of && !CarriesProof(context);
  if (is_as_its_connection) {
    auto known = frontend.known_callers.Find(connection->id, gate.generation(), gate.now_s());
    if (known) return *std::move(known);
  }
  auto arrived = gate.Arrive(frontend.inside.FactsOf(context, connection, frontend.unix_peer_of));
  const auto* visitor = std::get_if<Visitor>(&arrived);
  if (is_as_its_connection && visitor != nullptr) frontend.known_callers.Remember(connection->id, *visitor);
  return arrived;
}

}  // namespace distlock::rpc
