// SPDX-License-Identifier: Apache-2.0
#include "bench/party.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

v1::LockSpec NewLock() {
  static std::atomic<int> count{0};
  return Spec("contended-" + std::to_string(++count), true);
}

}  // namespace

Parties::Parties(const Lab& lab, size_t count, size_t brokers, Load* load, bool hot)
    : spec_(NewLock()), load_(*load), hot_(hot), places_(count), grants_(count) {
  sessions_ = OpenSessions(count, [&](size_t i) {
    return std::make_unique<Session>(
        lab.broker(i % brokers).target(),
        [this, i](Session& session, const SeenEvent& event) { Handle(i, session, event); });
  });
  pulse_.emplace(Pointers(sessions_));
}

Parties::~Parties() { Close(); }

void Parties::Acquire(size_t party) {
  sessions_[party]->Do([this, party](Session& session) {
    std::lock_guard lock(mu_);
    Ask(party, session);
  });
}

void Parties::Release(size_t party) {
  sessions_[party]->Do([this, party](Session& session) {
    std::lock_guard lock(mu_);
    Give(party, session);
  });
}

void Parties::Ask(size_t party, Session& session) {
  Place& place = places_[party];
  place.state = State::kAsked;
  place.acquire_id = place.next_id++;
  session.Send(EncodeAcquire(place.acquire_id, spec_));
}

void Parties::Give(size_t party, Session& session) {
  Place& place = places_[party];
  place.state = State::kReleasing;
  held_ = false;
  released_at_ = NowNanos();
  session.Send(EncodeRelease(place.next_id++, place.acquire_id));
}

void Parties::Handle(size_t party, Session& session, const SeenEvent& event) {
  std::lock_guard lock(mu_);
  Place& place = places_[party];
  if (event.kind == v1::SessionEvent::kGranted && event.id == place.acquire_id) {
    OnGranted(party, session, event);
  } else if (event.kind == v1::SessionEvent::kQueued && event.id == place.acquire_id) {
    if (place.state == State::kAsked) place.state = State::kQueued;
  } else if (event.kind == v1::SessionEvent::kReleased && event.outcome == v1::RELEASE_OUTCOME_RELEASED) {
    // In hot mode the party may have asked again, and even been granted, meanwhile.
    if (place.state == State::kReleasing) place.state = State::kIdle;
  } else {
    load_.Fail(Describe(event));
  }
  if (!hot_ || load_.stopping()) changed_.notify_all();
}

void Parties::OnGranted(size_t party, Session& session, const SeenEvent& event) {
  granted_at_ = NowNanos();
  if (held_) load_.Fail("two holders at once: " + Describe(event));
  if (event.token <= last_token_) load_.Fail("the fencing token did not grow: " + Describe(event));
  last_token_ = event.token;
  held_ = true;
  places_[party].state = State::kHolding;
  if (!hot_) return holders_.push_back(party);
  if (load_.recording() && released_at_ != 0) {
    load_.tally(0).op_latency.Record(granted_at_ - released_at_);
    ++grants_[party];
  }
  load_.tally(0).pairs.fetch_add(1, std::memory_order_relaxed);
  Give(party, session);
  if (!load_.stopping()) Ask(party, session);
}

void Parties::WaitFor(const std::function<bool()>& done, const char* what) {
  std::unique_lock lock(mu_);
  const bool ended = changed_.wait_for(lock, kPatience, [&] { return done() || !load_.error().empty(); });
  if (!load_.error().empty()) throw std::runtime_error(load_.error());
  if (!ended) throw std::runtime_error(std::string("10 s without ") + what);
}

void Parties::WaitQueued(size_t party) {
  WaitFor([this, party] { return places_[party].state == State::kQueued; }, "a place in the queue");
}

size_t Parties::WaitGranted() {
  size_t party = 0;
  WaitFor(
      [this, &party] {
        if (holders_.empty()) return false;
        party = holders_.front();
        holders_.pop_front();
        return true;
      },
      "a grant");
  return party;
}

void Parties::WaitReleased(size_t party) {
  WaitFor([this, party] { return places_[party].state == State::kIdle; }, "the answer to a release");
}

void Parties::WaitAllReleased() {
  WaitFor(
      [this] {
        return std::all_of(places_.begin(), places_.end(), [](const Place& p) { return p.state == State::kIdle; });
      },
      "the answers to all releases");
}

void Parties::Close() {
  pulse_.reset();
  for (const auto& session : sessions_) {
    const std::string problem = session->Close();
    if (!problem.empty()) load_.Fail(problem);
  }
}

}  // namespace distlock::bench
