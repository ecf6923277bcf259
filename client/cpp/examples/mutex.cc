// SPDX-License-Identifier: Apache-2.0
//
// Does a job on one machine at a time: distlock_example_mutex [key]
#include <distlock/client.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

namespace {

// Stands for the work: goes on while the lock is held, and passes the token to the store of its result.
int Work(const distlock::Guard& guard) {
  for (int step = 1; step <= 5; ++step) {
    if (guard.state() == distlock::LockState::kLost) {
      std::cerr << "lost: " << distlock::Name(guard.end_cause()) << ' ' << guard.end_message() << '\n';
      return 75;
    }
    std::cout << "step " << step << " under token " << guard.token() << '\n';
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  distlock::Client client({.client_label = "example"});
  distlock::Mutex mutex = client.MakeMutex(argc > 1 ? argv[1] : "report", {.owner = "nightly report"});

  distlock::Result<distlock::Guard> guard = mutex.TryLockFor(std::chrono::seconds(10));
  if (!guard.ok()) {
    std::cerr << distlock::Name(guard.refusal().reason) << ": " << guard.refusal().message << '\n';
    for (const distlock::Holder& holder : guard.refusal().holders) std::cerr << "held by " << holder.owner << '\n';
    if (guard.refusal().block) std::cerr << "blocked by the lock_delay of " << guard.refusal().block->owner << '\n';
    return 1;
  }
  const int code = Work(*guard);
  std::cout << "release: " << distlock::Name(guard->Release()) << '\n';
  return code;
}
