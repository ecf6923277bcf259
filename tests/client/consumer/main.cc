// SPDX-License-Identifier: Apache-2.0
//
// Takes a lock of a broker in this process.
#include <distlock/client.h>
#include <distlock/coro.h>
#include <distlock/inspect.h>
#include <distlock/testing/broker.h>

#include <cstdio>

int main() {
  distlock::testing::Broker broker;
  distlock::Client client({.address = broker.address()});
  distlock::Result<distlock::Guard> guard = client.MakeMutex("k").Lock();
  if (!guard.ok() || !broker.IsHeld("k")) return 1;
  std::printf("holds %s under token %lld\n", guard->key().c_str(), static_cast<long long>(guard->token()));
  return guard->Release() == distlock::ReleaseOutcome::kReleased ? 0 : 1;
}
