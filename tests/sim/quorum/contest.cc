// SPDX-License-Identifier: Apache-2.0
#include "quorum/contest.h"

#include <memory>
#include <string>
#include <vector>

#include "quorum/broker.h"

namespace distlock::sim::quorum {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTtl = seconds(15);

class Arena : public Judge {
 public:
  Arena(uint64_t seed, bool waits) : waits_(waits), dice_(seed) {
    weather_.trip = microseconds(500);
    weather_.own_server_is_near = !waits;
    const Instant start = course_.now() + milliseconds(100);
    for (size_t node = 0; node < kContenders; ++node) AddServer(node);
    for (size_t i = 0; i < kContenders; ++i) {
      Broker::Setting setting{.number = static_cast<int>(i),
                              .config = {.nodes = kContenders, .longest_ttl = kTtl, .seed = dice_.Next()},
                              .clock = {.offset = dice_.Between(Duration(0), std::chrono::hours(1))}};
      brokers_.push_back(std::make_unique<Broker>(course_, dice_, weather_, servers_, setting, this));
      course_.At(start, [this, i] { brokers_[i]->Begin(MakeRequest(i)); });
    }
    contest_.longest_trip = 2 * Wire::LongestDelay(weather_);
    start_ = start;
  }

  Contest Run() {
    for (auto& broker : brokers_) broker->Start();
    const Instant limit = start_ + seconds(60);
    while (contest_.served + contest_.refused < kContenders && course_.Next(limit)) {
    }
    return contest_;
  }

 private:
  void AddServer(size_t node) {
    servers_.push_back(std::make_unique<Server>(course_, node + 1));
    SkewedClock& clock = servers_.back()->clock;
    clock.offset = dice_.Between(-milliseconds(40), milliseconds(40));
    servers_.back()->Sync();
    servers_.back()->model.OnMessage([this, node](int client, std::string_view, std::string_view payload) {
      for (auto& broker : brokers_) {
        if (broker->wire(node).subscriber() == client) broker->wire(node).OnMessage(payload);
      }
    });
  }

  std::unique_ptr<Request> MakeRequest(size_t i) {
    auto request = std::make_unique<Request>();
    request->number = static_cast<int>(i);
    request->name = core::LockName::Encode("default", "k");
    for (uint8_t& byte : request->owner) byte = static_cast<uint8_t>(dice_.Roll(256));
    request->want.mode = core::Mode::kExclusive;
    request->ttl = kTtl;
    request->hold = milliseconds(1);
    request->waits = waits_;
    return request;
  }

  void OnGranted(Request&) override {
    if (contest_.first == Duration{}) contest_.first = course_.now() - start_;
    contest_.believed_together |= ++holding_ > 1;
  }
  void OnEnded(Request&) override { --holding_; }
  void OnVoteYielded(const Request&) override { contest_.believed_together = true; }
  void OnDone(Request&, const std::string& how) override {
    contest_.served += how == "released";
    contest_.refused += how == "held";
  }
  void Log(const std::string&) override {}

  const bool waits_;
  Dice dice_;
  Course course_;
  Weather weather_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Broker>> brokers_;
  Instant start_{};
  int holding_ = 0;
  Contest contest_;
};

}  // namespace

Contest RunContest(uint64_t seed) { return Arena(seed, /*waits=*/true).Run(); }
Contest RunTries(uint64_t seed) { return Arena(seed, /*waits=*/false).Run(); }

}  // namespace distlock::sim::quorum
