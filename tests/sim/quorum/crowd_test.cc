// SPDX-License-Identifier: Apache-2.0
//
// A writer holds a lock at three of five servers, and a crowd of readers finds the other two free: they must not hand
// those votes, of which nobody can make anything, round among themselves until it ends.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "quorum/broker.h"

namespace distlock::sim::quorum {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kCrowdServers = 5;
constexpr int kReaders = 30;
constexpr Duration kCrowdTtl = seconds(6);
constexpr Duration kWriterHold = seconds(5);
// They ask, see the writer, and give back what they have found free, some of them more than once.
constexpr uint64_t kMostOfAReader = 150;

class Crowd : public testing::TestWithParam<int>, public Judge {
 protected:
  Crowd() : dice_(static_cast<uint64_t>(GetParam())) {
    for (size_t node = 0; node < kCrowdServers; ++node) servers_.push_back(std::make_unique<Server>(course_, node + 1));
    for (size_t node = 0; node < kCrowdServers; ++node) {
      servers_[node]->model.OnMessage([this, node](int client, std::string_view, std::string_view payload) {
        for (auto& broker : brokers_) {
          if (broker->wire(node).subscriber() == client) broker->wire(node).OnMessage(payload);
        }
      });
    }
    for (int i = 0; i < 2; ++i) {
      const Broker::Setting setting{
          .number = i,
          .config = {.nodes = kCrowdServers, .longest_ttl = kCrowdTtl, .seed = static_cast<uint64_t>(GetParam())},
          .clock = {}};
      brokers_.push_back(std::make_unique<Broker>(course_, dice_, weather_, servers_, setting, this));
    }
  }

  void Begin(Broker& broker, int number, core::Mode mode, Duration hold) {
    auto request = std::make_unique<Request>();
    request->number = number;
    request->name = core::LockName::Encode("default", "k");
    request->owner[0] = static_cast<uint8_t>(number + 1);
    request->want.mode = mode;
    request->want.policy = core::Policy::kReaderPreferring;
    request->ttl = kCrowdTtl;
    request->hold = hold;
    broker.Begin(std::move(request));
  }
  uint64_t Commands() const { return brokers_[0]->commands() + brokers_[1]->commands(); }

  void OnGranted(Request& request) override {
    if (request.number == 0) return;
    ++readers_;
    if (before_ == 0) before_ = Commands();
  }
  void OnEnded(Request&) override {}
  void OnDone(Request&, const std::string&) override { ++done_; }
  void Log(const std::string&) override {}

  Dice dice_;
  Course course_;
  Weather weather_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Broker>> brokers_;
  int readers_ = 0;
  int done_ = 0;
  uint64_t before_ = 0;  // commands until the first of them is served
};

TEST_P(Crowd, IsQuietWhileTheWriterHolds) {
  for (auto& broker : brokers_) broker->Start();
  course_.After(milliseconds(500), [this] {
    for (const size_t node : {2, 3}) brokers_[0]->wire(node).Break(milliseconds(20));
    Begin(*brokers_[0], 0, core::Mode::kExclusive, kWriterHold);
  });
  for (int i = 1; i <= kReaders; ++i) {
    course_.After(milliseconds(502) + dice_.Between(Duration(0), milliseconds(50)),
                  [this, i] { Begin(*brokers_[static_cast<size_t>(i % 2)], i, core::Mode::kShared, Duration(0)); });
  }
  const Instant start = course_.now();
  while (done_ <= kReaders && course_.Next(start + seconds(60))) {
  }
  EXPECT_EQ(readers_, kReaders) << "not all were served";
  EXPECT_LE(before_, kMostOfAReader * kReaders);
  std::printf("%.1f commands a reader until the writer ends\n",
              static_cast<double>(before_) / static_cast<double>(kReaders));
}

INSTANTIATE_TEST_SUITE_P(OfReaders, Crowd, testing::Range(1, 6),
                         [](const auto& seed) { return "Seed" + std::to_string(seed.param); });

}  // namespace
}  // namespace distlock::sim::quorum
