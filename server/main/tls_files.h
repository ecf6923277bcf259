// SPDX-License-Identifier: Apache-2.0
//
// The files of --tls-cert, --tls-key and --tls-client-ca: read whole and checked before any of them is used. Pure but
// for reading; any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/tls.h"

namespace distlock {

struct TlsPaths {
  std::string cert;
  std::string key;
  std::string client_ca;  // "": none
};

struct TlsFiles {
  rpc::TlsMaterial material;
  absl::Time cert_not_after;
  absl::Time client_ca_not_after = absl::InfiniteFuture();  // of the one that expires first
};

// FailedPrecondition in one line that names the flag, the file, what is wrong with it and what to do.
absl::StatusOr<TlsFiles> LoadTls(const TlsPaths& paths, absl::Time now);

}  // namespace distlock
