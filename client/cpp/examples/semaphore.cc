// SPDX-License-Identifier: Apache-2.0
//
// At most four downloads at a time, on however many machines: distlock_example_semaphore [permits] [key]
// A big download takes several permits. All programs that use the key must name the same limit.
#include <distlock/client.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

int main(int argc, char** argv) {
  constexpr int32_t kLimit = 4;
  const auto permits = argc > 1 ? static_cast<int32_t>(std::strtol(argv[1], nullptr, 10)) : 1;
  distlock::Client client({.client_label = "example"});
  distlock::Semaphore downloads = client.MakeSemaphore(argc > 2 ? argv[2] : "downloads", kLimit, {.owner = "example"});

  distlock::Result<distlock::Guard> guard = downloads.TryAcquireFor(std::chrono::seconds(10), permits);
  if (!guard.ok()) {
    std::cerr << distlock::Name(guard.refusal().reason) << ": " << guard.refusal().message << '\n';
    for (const distlock::Holder& holder : guard.refusal().holders) {
      std::cerr << holder.owner << " has " << holder.permits << '\n';
    }
    if (guard.refusal().block) std::cerr << "the lock_delay of " << guard.refusal().block->owner << " blocks some\n";
    return 1;
  }
  std::cout << permits << " of " << kLimit << " under token " << guard->token() << '\n';
  std::this_thread::sleep_for(std::chrono::seconds(1));  // stands for the work
  std::cout << "release: " << distlock::Name(guard->Release()) << '\n';
  return 0;
}
