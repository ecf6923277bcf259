// SPDX-License-Identifier: Apache-2.0
//
// Moves something between two accounts under the locks of both: distlock_example_multi_lock [from] [to]
// Two of these programs that run at the same time in opposite directions do not deadlock.
#include <distlock/client.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  const std::string from = argc > 1 ? argv[1] : "account/7";
  const std::string to = argc > 2 ? argv[2] : "account/9";
  distlock::Client client({.client_label = "example"});
  distlock::MultiLock accounts = client.MakeMultiLock(distlock::LockSet({from, to}, {.owner = "transfer"}));

  distlock::Result<distlock::MultiGuard> both = accounts.TryLockFor(std::chrono::seconds(10));
  if (!both.ok()) {
    std::cerr << distlock::Name(both.refusal().reason) << ": " << both.refusal().message << '\n';
    return 1;
  }
  std::cout << from << " under token " << both->token(0) << ", " << to << " under token " << both->token(1) << '\n';
  std::this_thread::sleep_for(std::chrono::seconds(1));  // stands for the work
  if (both->state() == distlock::LockState::kLost) {
    std::cerr << "lost: " << distlock::Name(both->end_cause()) << ' ' << both->end_message() << '\n';
    return 75;
  }
  std::cout << "release: " << distlock::Name(both->Release()) << '\n';
  return 0;
}
