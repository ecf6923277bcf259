// SPDX-License-Identifier: Apache-2.0
//
// Channels to brokers, with TLS where the address is tls://host:port. For this library and for distlockctl. Any thread.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "distlock/client.h"

namespace distlock::internal {

inline constexpr char kTlsScheme[] = "tls://";

// `tls` with what the environment says in place of fields that are "".
TlsOptions WithEnvironment(TlsOptions tls);

// The fault of the files, in one line that names the file and where it was given; "" when they can be used.
std::string TlsProblem(const TlsOptions& tls);

// Why no connection to the address came about, in words: `said` is gRPC's message of a call that failed for it. Names
// the variable to set when TLS was the obstacle; else it is `said`.
std::string ConnectFailure(const std::string& address, const std::string& said);

// Keeps gRPC's own lines from stderr, for the whole process, unless GRPC_VERBOSITY is set.
void SilenceGrpcLog();

struct WayTo {
  std::string target;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
};

// How gRPC reaches an address. Reads the files anew, so that renewed ones are used; where they cannot be read, takes
// those of the last time. May add to `args`.
WayTo FindWay(const std::string& address, const TlsOptions& tls, grpc::ChannelArguments& args);

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const TlsOptions& tls,
                                           grpc::ChannelArguments& args);

}  // namespace distlock::internal
