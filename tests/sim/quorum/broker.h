// SPDX-License-Identifier: Apache-2.0
//
// A broker of a quorum simulation: the production ballot, and above it clients that ask, wait, hold, renew and release
// as the core would have them. Single-threaded; deterministic.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quorum/servers.h"

namespace distlock::sim::quorum {

struct Request {
  enum class State : uint8_t { kAsking, kQueued, kHolding, kReleasing, kDone };
  int number = 0;
  core::LockName name;
  core::OwnerId owner{};
  core::Want want;
  Duration ttl{};
  Duration delay{};
  Duration hold{};
  bool waits = true;
  int repeats = 0;                  // its client asks again, under the same owner, so many times
  Instant gives_up = core::kNever;  // true time

  State state = State::kAsking;
  core::OpId op = 0;  // of the acquire in flight
  bool again = false;
  int attempts = 0;
  uint64_t token = 0;
  Instant deadline{};   // by the broker's clock
  uint64_t tenure = 0;  // counts grants, so that timers of earlier ones do nothing
  core::OpId renew_op = 0;
  Instant renew_sent{};
  uint64_t only_token = 0;  // of the release
  Instant release_until{};

  // For the checks, in true time.
  Instant began{};
  Instant acked{};
  Instant granted{};

  // The same wish, once more.
  Request Again() const {
    Request one;
    one.name = name;
    one.owner = owner;
    one.want = want;
    one.ttl = ttl;
    one.delay = delay;
    one.hold = hold;
    one.waits = waits;
    one.repeats = repeats - 1;
    return one;
  }
};

// Told of each change of belief.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual void OnGranted(Request& request) = 0;
  // It believes no more.
  virtual void OnEnded(Request& request) = 0;
  virtual void OnDone(Request& request, const std::string& how) = 0;
  // It believes in a grant, and a server's vote under that token is given back.
  virtual void OnVoteYielded(const Request& /*request*/) {}
  virtual void Log(const std::string& text) = 0;
};

class Broker : private Wire::Owner {
 public:
  struct Setting {
    int number = 0;
    ballot::Config config;
    SkewedClock clock;
  };

  Broker(Course& course, Dice& dice, const Weather& weather, const std::vector<std::unique_ptr<Server>>& servers,
         const Setting& setting, Judge* judge);

  void Start();
  void Begin(std::unique_ptr<Request> request);
  Wire& wire(size_t node) { return *wires_[node]; }
  std::vector<Wire*> wires();
  const ballot::Ballot& ballot() const { return ballot_; }
  const Request* Find(const core::OwnerId& owner) const;
  // True time at which the broker's clock shows that.
  Instant TrueTime(Instant local) const;
  uint64_t commands() const;
  std::string Unfinished() const;

 private:
  struct Op {
    std::function<void(core::StoreReply&)> on_reply;
    Instant sent;
  };

  Instant LocalTime() const override { return setting_.clock.Of(course_.now()); }
  void OnYielded(const core::OwnerId& owner, uint64_t token) override;
  void OnInput(ballot::Input&& input) override;
  void OnChannelUp() override { TendAll(); }
  void OnStoreNotice(core::Input&&) override {}

  void Step(ballot::Input&& input);
  void Wake();
  void OnCore(core::Input&& input);
  core::OpId NewOp(std::function<void(core::StoreReply&)> on_reply);
  Instant SentAt(core::OpId op) const;

  void Ask(Request& request);
  void OnAcquire(Request& request, core::OpId op, core::StoreReply& reply, Instant sent);
  void Grant(Request& request, uint64_t token, Instant deadline, bool second_hand);
  void Renew(Request& request);
  void OnRenewed(Request& request, core::StoreReply& reply, Instant sent);
  void RenewLater(Request& request, Duration time);
  void Lose(Request& request, const std::string& why);
  void GiveBack(Request& request, bool withdraw);
  void SendRelease(Request& request, bool withdraw);
  void Retry(Request& request, const std::string& why);
  void Finish(Request& request, const std::string& how);
  void Tend(const core::LockName& name);
  void TendAll();
  void TendBy(const core::LockName& name, Duration time);

  Course& course_;
  Dice& dice_;
  const Setting setting_;
  Judge* const judge_;
  ballot::Ballot ballot_;
  std::vector<std::unique_ptr<Wire>> wires_;
  bool up_ = false;
  core::OpId last_op_ = 0;
  std::map<core::OpId, Op> ops_;
  std::map<core::OwnerId, std::unique_ptr<Request>> requests_;
  std::map<core::LockName, uint64_t> tends_;  // the tend that is due
  Instant woken_ = core::kNever;
};

}  // namespace distlock::sim::quorum
