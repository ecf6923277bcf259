// SPDX-License-Identifier: Apache-2.0
//
// One unary call of a test's client, which waits for the answer.
#pragma once

#include <grpcpp/client_context.h>

#include <string>
#include <utility>

#include "distlock/v1/lock_service.pb.h"

namespace distlock::rpc {

template <typename Response, typename Stub, typename Method, typename Request>
std::pair<grpc::Status, Response> Call(Stub& stub, Method method, const Request& request) {
  grpc::ClientContext context;
  Response response;
  grpc::Status status = (stub.*method)(&context, request, &response);
  return {std::move(status), std::move(response)};
}

// One try for `key`, which never queues.
inline v1::AcquireRequest OneTry(const std::string& key) {
  v1::AcquireRequest request;
  v1::LockSpec& lock = *request.add_locks();
  lock.set_key(key);
  lock.mutable_max_wait();
  return request;
}

}  // namespace distlock::rpc
