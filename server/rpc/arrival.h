// SPDX-License-Identifier: Apache-2.0
//
// The caller of a call that has just arrived. Any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <variant>

#include "rpc/frontend.h"

namespace distlock::rpc {

// `connection`: on which the call came; null: it is gone, or the caller is in this process. UNAUTHENTICATED, when a
// proof is wrong.
std::variant<Subject, v1::Refusal> Arrive(Frontend& frontend, const grpc::ServerContext& context,
                                          const acceptor::Connection* connection);

}  // namespace distlock::rpc
