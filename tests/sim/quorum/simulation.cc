// SPDX-License-Identifier: Apache-2.0
#include "quorum/simulation.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "quorum/broker.h"
#include "quorum/wire_faults.h"

namespace distlock::sim::quorum {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kClockLook = seconds(1);  // a broker looks at each server's clock so often
// For each request; those who wait long for paused servers need some hundreds.
constexpr uint64_t kMostCommands = 2000;
constexpr uint64_t kCountEach = 4096;  // events

bool Conflict(const core::Want& a, const core::Want& b) {
  return a.mode == core::Mode::kExclusive || b.mode == core::Mode::kExclusive;
}

class Simulation : public Judge {
 public:
  Simulation(uint64_t seed, bool log) : log_(log), dice_(seed) { Draw(); }

  Findings Run();

 private:
  struct Believer {
    int number = 0;
    core::Want want;
    core::LockName name;
    const Broker* broker = nullptr;
    core::OwnerId owner{};
  };
  struct Grant {
    int number = 0;
    core::Want want;
    core::LockName name;
    uint64_t token = 0;
    bool is_plain = false;
    Instant began{};
    Instant acked{};
    Instant granted{};
  };

  void Draw();
  void DrawRequests();
  void BeginAt(Instant at, const std::shared_ptr<std::unique_ptr<Request>>& request);
  void Repeat(const Request& request);
  void DrawFaults();
  void OneFault();
  void WireFault(size_t node);
  void SetClock(size_t node, Duration by);
  void SetClockRight(size_t node);
  void OnGranted(Request& request) override;
  void OnEnded(Request& request) override;
  void OnVoteYielded(const Request& request) override {
    Fail("#" + std::to_string(request.number) + " believes, and a yield takes a vote");
  }
  void OnDone(Request& request, const std::string& how) override;
  void Log(const std::string& text) override;
  void LogServers();
  void CheckOrder();
  uint64_t Commands() const;
  void CheckTraffic();
  void CheckLeft();
  void Fail(const std::string& what) {
    if (findings_.fault.empty()) findings_.fault = what;
    Log("FAULT " + what);
  }

  const bool log_;
  Dice dice_;
  Course course_;
  Weather weather_;
  bool faults_ = false;
  bool paths_ = false;  // what befalls it are paths that fail over, under clients that try and hold for long
  Duration ttl_{};
  Duration hold_off_{};
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Broker>> brokers_;
  std::map<int, Broker*> broker_of_;
  std::vector<Believer> believers_;
  std::vector<Grant> grants_;
  size_t total_ = 0;
  size_t done_ = 0;
  Instant faults_end_{};
  Findings findings_;
};

void Simulation::Log(const std::string& text) {
  const std::chrono::duration<double, std::milli> at = course_.now().time_since_epoch() - std::chrono::hours(1);
  if (log_) std::printf("%12.3f ms  %s\n", at.count(), text.c_str());
}

void Simulation::Draw() {
  const size_t nodes = dice_.Pick(std::vector<size_t>{3, 3, 5});
  const int brokers = 1 + dice_.Roll(3);
  faults_ = dice_.Chance(0.5);
  paths_ = faults_ && dice_.Chance(0.4);
  weather_.trip = dice_.Pick(std::vector<Duration>{microseconds(200), microseconds(600), milliseconds(3)});
  weather_.spikes = faults_ ? 0.02 : 0;
  weather_.stalled_yields = paths_ ? 0.05 : 0;
  ttl_ = dice_.Pick(std::vector<Duration>{seconds(3), seconds(6), seconds(15)});
  hold_off_ = ttl_ + milliseconds(10);
  for (size_t node = 0; node < nodes; ++node) {
    servers_.push_back(std::make_unique<Server>(course_, node + 1));
    SkewedClock& clock = servers_.back()->clock;
    clock.rate = (static_cast<double>(dice_.Roll(200)) - 100) * 1e-6;
    clock.offset = dice_.Between(-milliseconds(40), milliseconds(40));
    clock.offset -= clock.Of(course_.now()) - course_.now() - clock.offset;
    servers_.back()->Sync();
    servers_.back()->model.OnMessage([this, node](int client, std::string_view, std::string_view payload) {
      for (auto& broker : brokers_) {
        if (broker->wire(node).subscriber() == client) broker->wire(node).OnMessage(payload);
      }
    });
  }
  for (int i = 0; i < brokers; ++i) {
    Broker::Setting setting{.number = i,
                            .config = {.nodes = nodes, .longest_ttl = ttl_, .seed = dice_.Next()},
                            .clock = {.rate = (static_cast<double>(dice_.Roll(200)) - 100) * 1e-6,
                                      .offset = dice_.Between(Duration(0), std::chrono::hours(1))}};
    brokers_.push_back(std::make_unique<Broker>(course_, dice_, weather_, servers_, setting, this));
  }
  DrawRequests();
  if (faults_) DrawFaults();
}

void Simulation::DrawRequests() {
  total_ = dice_.Pick(paths_ ? std::vector<size_t>{3, 8, 20} : std::vector<size_t>{3, 8, 20, 40});
  const Duration span = paths_ ? dice_.Between(seconds(2), seconds(12))
                               : dice_.Pick(std::vector<Duration>{weather_.trip, weather_.trip * 20, seconds(2)});
  const double readers = dice_.Pick(std::vector<double>{0, 0, 0.3, 0.7});
  const double tries = dice_.Pick(paths_ ? std::vector<double>{0.5, 0.9} : std::vector<double>{0, 0, 0.3});
  const double repeats = dice_.Pick(std::vector<double>{0, 0.5});
  const int policy = dice_.Pick(std::vector<int>{0, 0, 0, 1, 2, 3});
  const int locks = dice_.Pick(std::vector<int>{1, 1, 2});
  const auto holds = std::vector<Duration>{Duration(0),
                                           weather_.trip,
                                           weather_.trip * 5,
                                           milliseconds(50),
                                           faults_ ? Duration(seconds(2)) : Duration(milliseconds(50)),
                                           faults_ ? ttl_ * 2 : Duration(milliseconds(20))};
  for (size_t i = 0; i < total_; ++i) {
    auto request = std::make_shared<std::unique_ptr<Request>>(std::make_unique<Request>());
    Request& one = **request;
    one.number = static_cast<int>(i);
    one.name = core::LockName::Encode("default", "k" + std::to_string(dice_.Roll(locks)));
    one.owner[0] = 0x0a;
    one.owner[1] = static_cast<uint8_t>(i);
    for (size_t byte = 2; byte < one.owner.size(); ++byte) one.owner[byte] = static_cast<uint8_t>(dice_.Roll(256));
    one.want.mode = dice_.Chance(readers) ? core::Mode::kShared : core::Mode::kExclusive;
    one.want.policy = static_cast<core::Policy>(policy);
    one.ttl = ttl_;
    one.delay = dice_.Chance(0.05) ? milliseconds(100) : milliseconds(0);
    one.hold = paths_ && dice_.Chance(0.5) ? ttl_ * 2 : dice_.Pick(holds);
    one.waits = !dice_.Chance(tries);
    if (dice_.Chance(repeats)) {
      one.owner[0] = core::kRepeatableMark;
      one.repeats = 1 + dice_.Roll(3);
    }
    const Instant at = course_.now() + milliseconds(100) + dice_.Between(Duration(0), span);
    if (dice_.Chance(faults_ ? 0.1 : 0)) one.gives_up = at + dice_.Between(Duration(0), seconds(2));
    BeginAt(at, request);
  }
}

void Simulation::BeginAt(Instant at, const std::shared_ptr<std::unique_ptr<Request>>& request) {
  Broker* const broker = brokers_[static_cast<size_t>(dice_.Roll(static_cast<int>(brokers_.size())))].get();
  broker_of_[(*request)->number] = broker;
  course_.At(at, [broker, request] { broker->Begin(std::move(*request)); });
}

// The client asks again with the same request id, through any broker.
void Simulation::Repeat(const Request& request) {
  auto again = std::make_shared<std::unique_ptr<Request>>(std::make_unique<Request>(request.Again()));
  (*again)->number = static_cast<int>(total_++);
  BeginAt(course_.now() + dice_.Between(Duration(0), dice_.Pick(std::vector<Duration>{weather_.trip * 4, seconds(1)})),
          again);
}

void Simulation::DrawFaults() {
  weather_.lost_notices = dice_.Pick(std::vector<double>{0, 0.02, 0.3});
  const int count = dice_.Roll(12);
  const Duration span = dice_.Pick(std::vector<Duration>{milliseconds(300), seconds(4), seconds(12)});
  faults_end_ = course_.now() + milliseconds(100) + span;
  for (int i = 0; i < count; ++i) {
    course_.At(course_.now() + milliseconds(90) + dice_.Between(Duration(0), span), [this] { OneFault(); });
  }
  course_.At(faults_end_, [this] {
    weather_.lost_notices = 0;
    weather_.spikes = 0;
    for (size_t node = 0; node < servers_.size(); ++node) SetClockRight(node);
  });
}

// Somebody does, once it was seen that it is wrong.
void Simulation::SetClockRight(size_t node) {
  if (servers_[node]->unseen_by > 0) return course_.After(milliseconds(100), [this, node] { SetClockRight(node); });
  SetClock(node, -servers_[node]->set_by);
}

void Simulation::OneFault() {
  if (paths_ && dice_.Chance(0.8)) return WireFault(static_cast<size_t>(dice_.Roll(static_cast<int>(servers_.size()))));
  const auto node = static_cast<size_t>(dice_.Roll(static_cast<int>(servers_.size())));
  Server& server = *servers_[node];
  const std::string name = "node " + std::to_string(node);
  switch (dice_.Roll(8)) {
    case 0:
      server.paused_until = course_.now() + dice_.Between(milliseconds(1), ttl_ + ttl_ / 2);
      return Log(name + " is paused");
    case 1:
      server.Forget();
      server.held_off_until_us = server.NowUs() + std::chrono::duration_cast<microseconds>(hold_off_).count();
      for (auto& one : brokers_) one->wire(node).Break(dice_.Between(milliseconds(1), seconds(1)));
      return Log(name + " is restarted empty");
    case 2: {
      const Duration step = dice_.Pick(std::vector<Duration>{milliseconds(100), ttl_ / 2, ttl_ * 2, -milliseconds(100),
                                                             -ttl_, -std::chrono::hours(1)});
      if (node >= servers_.size() / 2) return;  // only of a minority
      if (server.unseen_by > 0) return;         // a clock that is set there and back between two looks is not seen
      SetClock(node, step);
      return Log("the clock of " + name + " is set by " + std::to_string(step / milliseconds(1)) + " ms");
    }
    default:
      return WireFault(node);
  }
}

// For one broker: its connection to one server, or its path to all of them.
void Simulation::WireFault(size_t node) {
  const auto number = static_cast<size_t>(dice_.Roll(static_cast<int>(brokers_.size())));
  const bool all = dice_.Chance(paths_ ? 0.8 : 0.4);
  std::vector<Wire*> wires{&brokers_[number]->wire(node)};
  if (all) wires = brokers_[number]->wires();
  Log("b" + std::to_string(number) + " and " + (all ? "all nodes: " : "node " + std::to_string(node) + ": ") +
      Trouble(course_, dice_, wires));
}

void Simulation::SetClock(size_t node, Duration by) {
  if (by == Duration(0)) return;
  Server& server = *servers_[node];
  server.clock.offset += by;
  server.set_by += by;
  // The census counts by the new clock.
  server.held_off_until_us += std::chrono::duration_cast<microseconds>(by).count();
  for (auto& broker : brokers_) {
    Wire* const wire = &broker->wire(node);
    ++server.unseen_by;
    course_.After(dice_.Between(Duration(0), kClockLook),
                  [wire, by, &server] { wire->TellClockStep(by, [&server] { --server.unseen_by; }); });
  }
}

void Simulation::OnGranted(Request& request) {
  ++findings_.grants;
  const Broker* const broker = broker_of_[request.number];
  Log("#" + std::to_string(request.number) + " is granted under " + std::to_string(request.token));
  std::erase_if(believers_, [&](const Believer& one) {
    const Request* const other = one.broker->Find(one.owner);
    return other == nullptr || one.broker->TrueTime(other->deadline) <= course_.now();
  });
  for (const Believer& one : believers_) {
    if (one.name != request.name || one.number == request.number || !Conflict(one.want, request.want)) continue;
    Fail("exclusion: #" + std::to_string(request.number) + " is granted while #" + std::to_string(one.number) +
         " believes");
  }
  for (const Grant& grant : grants_) {
    if (grant.name != request.name) continue;
    if (grant.number == request.number && grant.token == request.token) continue;
    const bool ordered = Conflict(grant.want, request.want);
    if (grant.token == request.token || (ordered && grant.token > request.token)) {
      Fail("token: #" + std::to_string(request.number) + " has " + std::to_string(request.token) + " after #" +
           std::to_string(grant.number) + " had " + std::to_string(grant.token));
    }
  }
  believers_.push_back({request.number, request.want, request.name, broker, request.owner});
  grants_.push_back(
      {request.number, request.want, request.name, request.token,
       request.waits && request.want.policy == core::Policy::kFair && request.want.mode == core::Mode::kExclusive,
       request.began, request.acked, request.granted});
}

void Simulation::OnEnded(Request& request) {
  std::erase_if(believers_, [&](const Believer& one) { return one.number == request.number; });
}

void Simulation::OnDone(Request& request, const std::string& how) {
  ++done_;
  if (how == "held") ++findings_.refusals;
  if (how == "given up") ++findings_.losses;
  Log("#" + std::to_string(request.number) + " is done: " + how);
  if (request.repeats > 0) Repeat(request);
}

// Logs all that every server has.
void Simulation::LogServers() {
  for (auto& server : servers_) {
    server->Sync();
    for (const KeyFacts& facts : server->model.Keys()) {
      std::string text(facts.key);
      if (const auto value = server->model.String(facts.key)) text += " = " + std::string(*value);
      for (const auto& [member, score] : server->model.Zset(facts.key)) {
        text += " " + std::string(member.substr(0, 4)) + "@" + std::to_string(static_cast<int64_t>(score));
      }
      for (const auto& [field, value] : server->model.Hash(facts.key)) {
        text += " " + std::string(field.substr(0, 4)) + "=" + std::string(value);
      }
      Log(text);
    }
  }
}

void Simulation::CheckOrder() {
  for (const Grant& first : grants_) {
    for (const Grant& second : grants_) {
      if (!first.is_plain || !second.is_plain || first.name != second.name || first.acked == Instant{}) continue;
      if (first.acked < second.began && second.granted < first.granted) {
        Fail("order: #" + std::to_string(second.number) + " came after #" + std::to_string(first.number) +
             " had its place, and is served before it");
      }
    }
  }
}

uint64_t Simulation::Commands() const {
  uint64_t all = 0;
  for (const auto& broker : brokers_) all += broker->commands();
  return all;
}

void Simulation::CheckTraffic() {
  if (Commands() <= kMostCommands * total_) return;
  Fail("traffic: " + std::to_string(Commands()) + " commands for " + std::to_string(total_) + " requests");
}

void Simulation::CheckLeft() {
  for (auto& broker : brokers_) {
    const ballot::Ballot& ballot = broker->ballot();
    if (ballot.candidates() + ballot.debts() + ballot.in_flight() > 0) {
      Fail("left: a ballot has " + std::to_string(ballot.candidates()) + " candidates, " +
           std::to_string(ballot.debts()) + " debts, " + std::to_string(ballot.in_flight()) + " commands");
    }
  }
  for (auto& server : servers_) {
    server->Sync();
    server->model.ExpireDue();
    for (const KeyFacts& facts : server->model.Keys()) {
      if (!facts.key.ends_with(":t")) Fail("left: " + std::string(facts.key));
    }
  }
}

Findings Simulation::Run() {
  for (auto& broker : brokers_) broker->Start();
  const Instant start = course_.now();
  // The longest that may pass: every server was restarted last, every holder's key lives its ttl, and each waits for
  // all before it, each of which may be repeated three times.
  Duration patience = seconds(60) + 3 * (ttl_ + hold_off_) + ttl_ * 3 * static_cast<int>(total_ * 4);
  const Instant limit = std::max(start, faults_end_) + patience;
  for (uint64_t event = 1; done_ < total_ && findings_.fault.empty() && course_.Next(limit); ++event) {
    if (event % kCountEach == 0) CheckTraffic();
  }
  if (findings_.fault.empty() && done_ < total_) {
    std::string who;
    for (auto& broker : brokers_) who += broker->Unfinished();
    LogServers();
    Fail("service: not over after " + std::to_string(patience / seconds(1)) + " s:" + who);
  }
  if (findings_.fault.empty()) {
    const Instant end = course_.now() + 4 * ttl_ + seconds(150);
    while (course_.Next(end)) {
    }
    course_.At(end, [] {});
    course_.Next(end);
    CheckLeft();
  }
  if (findings_.fault.empty() && !faults_) CheckOrder();
  findings_.commands = Commands();
  findings_.requests = total_;
  return findings_;
}

}  // namespace

Findings RunSimulation(uint64_t seed, bool log) { return Simulation(seed, log).Run(); }

}  // namespace distlock::sim::quorum
