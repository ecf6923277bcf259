// SPDX-License-Identifier: Apache-2.0
//
// A process of a simulation: it may be paused, die and start again. All its work goes through Post, which runs it at
// once, or when the process runs again, and never after the life in which it was posted.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulation/env.h"
#include "simulation/skewed_clock.h"

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
    inbox_.push_back({std::move(what), false});
  }
  // At that time of this process's clock, or later.
  void PostAt(Duration local, Timeline::What what) {
    if (!env_.temper.slews) return PostAtInstant(clock_.When(local), std::move(what));
    // Its clock may run faster by then: so it looks again.
    const Duration left = local - LocalTime();
    if (left <= Duration(0)) return PostAtInstant(env_.now(), std::move(what));
    PostAtInstant(env_.now() + left - left / 1'000'000 * env_.temper.drift_ppm,
                  [this, local, what = std::move(what)]() mutable {
                    LocalTime() >= local ? what() : PostAt(local, std::move(what));
                  });
  }
  void PostAfter(Duration delay, Timeline::What what) { PostAtInstant(env_.now() + delay, std::move(what)); }

  void Pause(Duration time) {
    if (!alive_) return;
    env_.Log([&] { return name_ + " stands still"; });
    paused_until_ = std::max(paused_until_, env_.now() + time);
    env_.all_run_at = std::max(env_.all_run_at, paused_until_);
    env_.time.At(paused_until_, [this, life = life_] {
      if (life == life_ && env_.now() >= paused_until_) Resume();
    });
  }

  // Breaks all its connections; each peer notices after at most `longest`.
  void HangUp(Duration longest);
  // The open connections, in the order in which they were made.
  std::vector<std::shared_ptr<Wire>> Wires();
  void AddWire(const std::shared_ptr<Wire>& wire);

  void SlewClock(int drift_ppm) { clock_.Slew(env_.now(), drift_ppm); }

  // CLOCK_BOOTTIME of its machine.
  Duration LocalTime() const { return clock_.Shows(env_.now()); }
  Instant SimulatedTime(Duration local) const { return clock_.When(local); }

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
  static constexpr Duration kLatestTimer = milliseconds(2);  // of a process that runs again

  struct Posted {
    Timeline::What what;
    bool by_timer = false;
  };

  void PostAtInstant(Instant at, Timeline::What what) {
    env_.time.At(at, [this, life = life_, what = std::move(what)]() mutable {
      if (life != life_ || !alive_) return;
      if (running()) return what();
      inbox_.push_back({std::move(what), true});
    });
  }
  void Resume() {
    env_.Log([&] { return name_ + " runs again"; });
    const bool timer_first = env_.dice.Chance(0.5);
    std::deque<Posted> inbox = std::exchange(inbox_, {});
    if (env_.temper.late_timers && env_.dice.Chance(0.5)) return ResumeWithLateTimers(std::move(inbox));
    const uint64_t life = life_;
    if (timer_first) OnResumed();
    Do(std::move(inbox));
    if (!timer_first && life == life_) OnResumed();
  }
  // Sockets come before timers in a turn of a loop, and other threads may be busy.
  void ResumeWithLateTimers(std::deque<Posted> inbox) {
    std::deque<Posted> timers;
    for (Posted& one : inbox) {
      if (one.by_timer) timers.push_back(std::move(one));
    }
    std::erase_if(inbox, [](const Posted& one) { return one.by_timer; });
    PostAfter(env_.dice.Between(Duration(0), kLatestTimer), [this, timers = std::move(timers)]() mutable {
      const uint64_t life = life_;
      Do(std::move(timers));
      if (life == life_) OnResumed();
    });
    Do(std::move(inbox));
  }
  void Do(std::deque<Posted> posted) {
    for (const uint64_t life = life_; !posted.empty() && life == life_;) {
      Timeline::What next = std::move(posted.front().what);
      posted.pop_front();
      next();
    }
  }

  const int32_t actor_;
  const std::string name_;
  SkewedClock clock_;
  bool alive_ = false;
  uint64_t life_ = 0;
  Instant paused_until_{};
  std::deque<Posted> inbox_;
  std::vector<std::weak_ptr<Wire>> wires_;
};

}  // namespace distlock::sim
