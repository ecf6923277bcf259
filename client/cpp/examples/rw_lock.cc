// SPDX-License-Identifier: Apache-2.0
//
// A table with many readers and few writers: distlock_example_rw_lock read|write [key]
// Any number of readers run at the same time; a writer waits for them and runs alone.
#include <distlock/client.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  const std::string side = argc > 1 ? argv[1] : "read";
  if (side != "read" && side != "write") {
    std::cerr << "usage: distlock_example_rw_lock read|write [key]\n";
    return 64;
  }
  distlock::Client client({.client_label = "example"});
  distlock::RwLock lock = client.MakeRwLock(argc > 2 ? argv[2] : "table", {.owner = "example, " + side});

  constexpr auto kPatience = std::chrono::seconds(10);
  distlock::Result<distlock::Guard> guard =
      side == "write" ? lock.TryWriteLockFor(kPatience) : lock.TryReadLockFor(kPatience);
  if (!guard.ok()) {
    std::cerr << distlock::Name(guard.refusal().reason) << ": " << guard.refusal().message << '\n';
    for (const distlock::Holder& holder : guard.refusal().holders) {
      std::cerr << "held by " << holder.owner << ", " << distlock::Name(holder.mode) << '\n';
    }
    if (guard.refusal().block) std::cerr << "blocked by the lock_delay of " << guard.refusal().block->owner << '\n';
    return 1;
  }
  std::cout << side << " under token " << guard->token() << " after "
            << std::chrono::duration_cast<std::chrono::milliseconds>(guard->waited()).count() << " ms\n";
  std::this_thread::sleep_for(std::chrono::seconds(1));  // stands for the work
  std::cout << "release: " << distlock::Name(guard->Release()) << '\n';
  return 0;
}
