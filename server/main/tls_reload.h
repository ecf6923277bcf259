// SPDX-License-Identifier: Apache-2.0
//
// Reads the TLS files again: upon SIGHUP at once, otherwise when they have changed. Connections go on with what they
// began with; new ones get what was read. Files that are not good are refused as a whole, with one warning, and the
// present ones stay in use.
//
// Why it looks at the files: Kubernetes, cert-manager and Vault replace them without a signal. Main's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "main/tls_files.h"
#include "ops/metrics.h"
#include "rpc/tls.h"

namespace distlock {

class TlsReload {
 public:
  // `files`: what `shelf` was made of.
  TlsReload(TlsPaths paths, const TlsFiles& files, rpc::TlsShelf& shelf, ops::Metrics& metrics);

  // True: the new files are in use.
  bool Reload(absl::Time now);
  // About once a second. Looks at the files each ten seconds, and reads them when two looks a second apart show the
  // same change, so that half-written ones are not even tried.
  void Look(absl::Time now);

 private:
  // Which files they are, and how old. Empty: one of them is missing at this moment.
  std::string State() const;
  void Show(const TlsFiles& files);

  const TlsPaths paths_;
  rpc::TlsShelf& shelf_;
  ops::Metrics& metrics_;
  std::string read_;  // State of what was read last, whatever came of it
  std::string seen_;  // another one, seen once; "": none
  absl::Time next_look_;
};

}  // namespace distlock
