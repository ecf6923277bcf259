// SPDX-License-Identifier: Apache-2.0
//
// Translates the options into the settings of each module. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "acceptor/acceptor.h"
#include "core/broker_config.h"
#include "ops/options.h"
#include "rpc/server.h"

namespace distlock {

// Exit codes of sysexits.h for failures after ParseOptions.
inline constexpr int kExitStoreUnavailable = 69;
inline constexpr int kExitStoreDied = 70;
inline constexpr int kExitConfiguration = 78;

core::Duration ToCore(absl::Duration duration);
core::BrokerConfig BrokerConfigOf(const ops::Options& options, const core::StoreTraits& store, uint64_t seed);
std::vector<std::string> EscapedNamespaces(const std::vector<std::string>& namespaces);
acceptor::AcceptorOptions AcceptorOptionsOf(const ops::Options& options);
rpc::TlsClientAuth ClientAuthOf(const ops::Options& options);
rpc::ServerOptions ServerOptionsOf(const ops::Options& options, const core::StoreTraits& store,
                                   const std::string& broker_id, rpc::CallObserver* observer);

}  // namespace distlock
