// SPDX-License-Identifier: Apache-2.0
//
// A process of a world: it may be paused, die and start again. All its work goes through Post, which runs it at once,
// or when the process runs again, and never after the life in which it was posted.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "world/env.h"
#include "world/skewed_clock.h"

namespace distlock::sim {

class Wire;

class Process {
 public:
  Process(Env& env, Actor::Kind kind, std::string name)
      : env_(env), actor_(env.AddActor(kind, name)), name_(std::move(name)) {
    clock_ = SkewedClock(kDawn, hours(env.dice.Roll(1000)) + milliseconds(1),
                         env.dice.Roll(2 * env.temper.drift_ppm + 1) - env.temper.drift_ppm);
  }
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool alive() const { return alive_; }
  bool running() const { return alive_ && env_.now() >= paused_until_ && inbox_.empty(); }
  uint64_t life() const { return life_; }
  int32_t actor() const { return actor_; }
  const std::string& name() const { return name_; }

  void Post(Timeline::What what) {
    if (!alive_) return;
    if (running()) return what();
    inbox_.push_back(std::move(what));
  }
  // At that time of this process's clock, or later.
  void PostAt(Duration local, Timeline::What what) { PostAtInstant(clock_.When(local), std::move(what)); }
  void PostAfter(Duration delay, Timeline::What what) { PostAtInstant(env_.now() + delay, std::move(what)); }

  void Pause(Duration time) {
    if (!alive_) return;
    env_.Log([&] { return name_ + " stands still"; });
    paused_until_ = std::max(paused_until_, env_.now() + time);
    env_.time.At(paused_until_, [this, life = life_] {
      if (life == life_ && env_.now() >= paused_until_) Resume();
    });
  }

  // Breaks all its connections; each peer notices after at most `longest`.
  void HangUp(Duration longest);
  // The open connections, in the order in which they were made.
  std::vector<std::shared_ptr<Wire>> Wires();
  void AddWire(const std::shared_ptr<Wire>& wire);

  // CLOCK_BOOTTIME of its machine.
  Duration LocalTime() const { return clock_.Shows(env_.now()); }
  Instant WorldTime(Duration local) const { return clock_.When(local); }

 protected:
  void Live() {
    alive_ = true;
    paused_until_ = {};
  }
  void Die() {
    alive_ = false;
    inbox_.clear();
    ++life_;
  }
  // The timer's part of a resume. It runs before or after the posted work, at random: on a real machine, timer and
  // sockets race.
  virtual void OnResumed() {}

  Env& env_;

 private:
  void PostAtInstant(Instant at, Timeline::What what) {
    env_.time.At(at, [this, life = life_, what = std::move(what)]() mutable {
      if (life == life_) Post(std::move(what));
    });
  }
  void Resume() {
    env_.Log([&] { return name_ + " runs again"; });
    const bool timer_first = env_.dice.Chance(0.5);
    const uint64_t life = life_;
    std::deque<Timeline::What> inbox = std::move(inbox_);
    inbox_.clear();
    if (timer_first) OnResumed();
    while (!inbox.empty() && life == life_) {
      Timeline::What next = std::move(inbox.front());
      inbox.pop_front();
      next();
    }
    if (!timer_first && life == life_) OnResumed();
  }

  const int32_t actor_;
  const std::string name_;
  SkewedClock clock_;
  bool alive_ = false;
  uint64_t life_ = 0;
  Instant paused_until_{};
  std::deque<Timeline::What> inbox_;
  std::vector<std::weak_ptr<Wire>> wires_;
};

}  // namespace distlock::sim
