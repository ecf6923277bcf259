// SPDX-License-Identifier: Apache-2.0
//
// Target: a broker as a client of this bench reaches it: gRPC's name of it, and what proves both ends to each other.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

namespace distlock::bench {

struct Target {
  // NOLINTNEXTLINE(google-explicit-constructor): most targets are a name and nothing else
  Target(std::string named, std::shared_ptr<grpc::ChannelCredentials> by = grpc::InsecureChannelCredentials())
      : name(std::move(named)), credentials(std::move(by)) {}

  std::string name;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
};

}  // namespace distlock::bench
