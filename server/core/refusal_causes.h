// SPDX-License-Identifier: Apache-2.0
//
// The texts of refusals for whose cause more than one place refuses. For people, in English.
#pragma once

namespace distlock::core {

// The owner is derived from the request_id: it was sent for other locks as well, or for one of these alone.
inline constexpr char kRequestIdInUse[] = "the request_id is in use by another request";

// SHARED to EXCLUSIVE, whether by a conversion or by taking it again.
inline constexpr char kNoUpgrade[] =
    "a lease cannot become EXCLUSIVE: two readers that each wait for the other to leave would wait for ever; release "
    "it, acquire EXCLUSIVE, and look again at what the lock protects";

// The store's traits say that it has no PERMIT locks: only stores of several independent servers have none.
inline constexpr char kNoPermits[] =
    "this store has no PERMIT locks: each of its servers would count permits apart, and more would fit than the limit; "
    "use EXCLUSIVE or SHARED, or another store";

}  // namespace distlock::core
