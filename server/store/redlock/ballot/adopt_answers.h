// SPDX-License-Identifier: Apache-2.0
//
// The answers of several servers to one adopt, as one. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "store/redlock/ballot/context.h"

namespace distlock::store::ballot {

struct AdoptAnswers {
  core::AdoptDone merged;                    // of the servers that let it take the lease over; without a result
  size_t gone = 0;                           // servers that count, and have no such lease
  const core::AdoptDone* refusal = nullptr;  // one of the answers, which says more than that it is gone
};

// `answers`: by server, sent for at `sent`. `adopted`: bits, of those that let it and count. Only of these is it known
// how long the lease may last.
AdoptAnswers MergeAdopts(const core::StoreAdopt& adopt, std::span<const std::optional<Outcome>> answers,
                         uint32_t adopted, Instant sent, const Context& context);

}  // namespace distlock::store::ballot
