// SPDX-License-Identifier: Apache-2.0
//
// The hook through which leases tell a bundle that a lease kept for it is lost. Called rarely.
#pragma once

#include <string>

#include "core/records.h"

namespace distlock::core {

class KeptParts {
 public:
  // A lease that was kept is lost while other parts are waited for. REQUIRES: lease.bundle is not null.
  virtual void LosePart(Lease& lease, const std::string& cause) = 0;

 protected:
  ~KeptParts() = default;
};

}  // namespace distlock::core
