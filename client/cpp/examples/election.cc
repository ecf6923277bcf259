// SPDX-License-Identifier: Apache-2.0
//
// One candidate of many leads, and all see which: distlock_example_election [value] [name]
// Start it twice: the second program leads when the first is done.
#include <distlock/client.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <stop_token>
#include <thread>

int main(int argc, char** argv) {
  distlock::Client client({.client_label = "example"});
  distlock::Election election =
      client.MakeElection(argc > 2 ? argv[2] : "scheduler", argc > 1 ? argv[1] : "10.0.0.7:9000", {.owner = "example"});

  std::jthread observer([&election](const std::stop_token& stop) {
    election.Observe(
        [](const std::optional<distlock::Leader>& leader) {
          std::cout << (leader ? "leader: " + leader->value : "nobody leads") << std::endl;
        },
        stop);
  });

  distlock::Result<distlock::Leadership> leading = election.CampaignFor(std::chrono::seconds(30));
  if (!leading.ok()) {
    std::cerr << distlock::Name(leading.refusal().reason) << ": " << leading.refusal().message << '\n';
    return 1;
  }
  std::cout << "elected, token " << leading->token() << std::endl;
  std::this_thread::sleep_for(std::chrono::seconds(2));  // stands for the work of a leader
  std::cout << "resigned: " << distlock::Name(leading->Resign()) << std::endl;
  return 0;
}
