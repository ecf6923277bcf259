// SPDX-License-Identifier: Apache-2.0
//
// Every order in which the first messages between two brokers and three servers can arrive, to a depth: no two clients
// hold the lock, tokens grow, and whatever the order was, both are served. DISTLOCK_QUORUM_DEPTH=N goes to another
// depth.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <unordered_set>

#include "quorum/small_world.h"

namespace distlock::sim::quorum {
namespace {

constexpr int kDepth = 9;

class Explorer {
 public:
  Explorer(SmallWorld& world, int depth) : world_(world), depth_(depth) {}

  void Run() {
    Replay();
    Visit();
  }
  size_t states() const { return seen_.size(); }
  size_t ends() const { return ends_; }
  const std::string& fault() const { return fault_; }

 private:
  void Replay() {
    world_.Reset();
    for (const int choice : path_) world_.Take(choice);
  }
  std::string Story() const {
    std::string story = world_.fault() + ", after:";
    for (const int choice : path_) story += " " + world_.NameOf(choice) + ";";
    return story;
  }
  // The world is at path_.
  void Visit() {
    if (!fault_.empty() || !seen_.insert(world_.digest()).second) return;
    const std::vector<int> choices = world_.Choices();
    if (choices.empty() || static_cast<int>(path_.size()) == depth_) {
      ++ends_;
      world_.Finish();
      if (!world_.fault().empty()) fault_ = Story();
      return;
    }
    for (const int choice : choices) {
      if (choice != choices.front()) Replay();
      path_.push_back(choice);
      world_.Take(choice);
      if (!world_.fault().empty()) fault_ = Story();
      Visit();
      path_.pop_back();
      if (!fault_.empty()) return;
    }
  }

  SmallWorld& world_;
  const int depth_;
  std::vector<int> path_;
  std::unordered_set<uint64_t> seen_;
  size_t ends_ = 0;
  std::string fault_;
};

void Explore(SmallWorld::Wish first, SmallWorld::Wish second) {
  const char* const wanted = std::getenv("DISTLOCK_QUORUM_DEPTH");
  const int depth = wanted != nullptr ? std::atoi(wanted) : kDepth;
  SmallWorld world({first, second});
  Explorer explorer(world, depth);
  explorer.Run();
  std::printf("%zu states to depth %d, %zu of them run to the end\n", explorer.states(), depth, explorer.ends());
  EXPECT_EQ(explorer.fault(), "");
  EXPECT_GT(explorer.ends(), 100u);
}

constexpr SmallWorld::Wish kWriter{.mode = core::Mode::kExclusive};
constexpr SmallWorld::Wish kReader{.mode = core::Mode::kShared};
constexpr SmallWorld::Wish kTry{.mode = core::Mode::kExclusive, .waits = false};

TEST(SmallQuorum, TwoWriters) { Explore(kWriter, kWriter); }
TEST(SmallQuorum, AWriterAndAReader) { Explore(kWriter, kReader); }
TEST(SmallQuorum, TwoReaders) { Explore(kReader, kReader); }
TEST(SmallQuorum, AWriterAndATry) { Explore(kWriter, kTry); }
TEST(SmallQuorum, TwoTries) { Explore(kTry, kTry); }

}  // namespace
}  // namespace distlock::sim::quorum
