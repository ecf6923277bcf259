// SPDX-License-Identifier: Apache-2.0
//
// Every order in which the first messages between two brokers and three servers can arrive, to a depth: no two clients
// hold the lock, tokens grow, and whatever the order was, both are served. DISTLOCK_QUORUM_DEPTH=N goes to another
// depth.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <unordered_set>

#include "quorum/small_system.h"

namespace distlock::sim::quorum {
namespace {

constexpr int kDepth = 9;

class Explorer {
 public:
  Explorer(SmallSystem& simulation, int depth) : simulation_(simulation), depth_(depth) {}

  void Run() {
    Replay();
    Visit();
  }
  size_t states() const { return seen_.size(); }
  size_t ends() const { return ends_; }
  const std::string& fault() const { return fault_; }

 private:
  void Replay() {
    simulation_.Reset();
    for (const int choice : path_) simulation_.Take(choice);
  }
  std::string Story() const {
    std::string story = simulation_.fault() + ", after:";
    for (const int choice : path_) story += " " + simulation_.NameOf(choice) + ";";
    return story;
  }
  // The simulation is at path_.
  void Visit() {
    if (!fault_.empty() || !seen_.insert(simulation_.digest()).second) return;
    const std::vector<int> choices = simulation_.Choices();
    if (choices.empty() || static_cast<int>(path_.size()) == depth_) {
      ++ends_;
      simulation_.Finish();
      if (!simulation_.fault().empty()) fault_ = Story();
      return;
    }
    for (const int choice : choices) {
      if (choice != choices.front()) Replay();
      path_.push_back(choice);
      simulation_.Take(choice);
      if (!simulation_.fault().empty()) fault_ = Story();
      Visit();
      path_.pop_back();
      if (!fault_.empty()) return;
    }
  }

  SmallSystem& simulation_;
  const int depth_;
  std::vector<int> path_;
  std::unordered_set<uint64_t> seen_;
  size_t ends_ = 0;
  std::string fault_;
};

void Explore(SmallSystem::Wish first, SmallSystem::Wish second) {
  const char* const wanted = std::getenv("DISTLOCK_QUORUM_DEPTH");
  const int depth = wanted != nullptr ? std::atoi(wanted) : kDepth;
  SmallSystem simulation({first, second});
  Explorer explorer(simulation, depth);
  explorer.Run();
  std::printf("%zu states to depth %d, %zu of them run to the end\n", explorer.states(), depth, explorer.ends());
  EXPECT_EQ(explorer.fault(), "");
  EXPECT_GT(explorer.ends(), 100u);
}

constexpr SmallSystem::Wish kWriter{.mode = core::Mode::kExclusive};
constexpr SmallSystem::Wish kReader{.mode = core::Mode::kShared};
constexpr SmallSystem::Wish kTry{.mode = core::Mode::kExclusive, .waits = false};

TEST(SmallQuorum, TwoWriters) { Explore(kWriter, kWriter); }
TEST(SmallQuorum, AWriterAndAReader) { Explore(kWriter, kReader); }
TEST(SmallQuorum, TwoReaders) { Explore(kReader, kReader); }
TEST(SmallQuorum, AWriterAndATry) { Explore(kWriter, kTry); }
TEST(SmallQuorum, TwoTries) { Explore(kTry, kTry); }

}  // namespace
}  // namespace distlock::sim::quorum
