// SPDX-License-Identifier: Apache-2.0
// Uncontended locks by sessions of a broker.
#include <optional>
#include <utility>

#include "bench/session.h"

namespace distlock::bench {
namespace {

class SessionLoad final : public Load {
 public:
  SessionLoad(std::string target, size_t sessions, size_t in_flight) : Load(sessions), target_(std::move(target)) {
    for (size_t s = 0; s < sessions; ++s) {
      std::vector<Slot>& slots = slots_.emplace_back();
      for (size_t i = 0; i < in_flight; ++i) slots.emplace_back(s, i);
    }
  }

  void Start() override {
    sessions_.emplace(slots_.size(), [this](size_t s) {
      return std::make_unique<Session>(
          target_, [this, s](Session& session, const v1::SessionEvent& event) { Handle(s, session, event); }, *this);
    });
    for (size_t s = 0; s < slots_.size(); ++s) {
      busy_ += slots_[s].size();
      (*sessions_)[s].Do([&](Session& session) {
        for (Slot& slot : slots_[s]) Ask(session, slot, slot.acquire);
      });
    }
  }

  void Stop() override {
    AwaitRest(busy_);
    sessions_->Close();
  }

 private:
  // Command ids: 1 and up; the slot's acquire is 2i + 1, its release 2i + 2. An id is free again once it is answered
  // and its lease is over.
  struct Slot {
    Slot(size_t s, size_t i) {
      const auto id = static_cast<int64_t>(2 * i + 1);
      v1::LockSpec spec;
      spec.set_key("lock-" + std::to_string(s) + "-" + std::to_string(i));
      spec.mutable_max_wait();  // one try
      acquire = EncodeAcquire(id, spec);
      release = EncodeRelease(id + 1, id);
    }

    std::string acquire;
    std::string release;
    bool holding = false;
    int64_t last_token = 0;
    int64_t sent = 0;
  };

  static void Ask(Session& session, Slot& slot, const std::string& command) {
    slot.sent = NowNanos();
    session.Send(command);
  }

  void Handle(size_t s, Session& session, const v1::SessionEvent& event) {
    std::vector<Slot>& slots = slots_[s];
    const auto index = static_cast<size_t>((event.id() - 1) / 2);
    if (event.id() <= 0 || index >= slots.size()) return Fail(event.ShortDebugString());
    Slot& slot = slots[index];
    const bool granted = event.has_granted() && event.granted().fencing_token() > slot.last_token;
    if (slot.holding ? !IsReleased(event) : !granted) return Fail(event.ShortDebugString());
    Record(s, slot.sent);
    slot.holding = granted;
    if (granted) {
      slot.last_token = event.granted().fencing_token();
      return Ask(session, slot, slot.release);
    }
    CountPair(s);
    if (stopping()) {
      --busy_;
    } else {
      Ask(session, slot, slot.acquire);
    }
  }

  const std::string target_;
  std::vector<std::vector<Slot>> slots_;  // by session, guarded by its lock
  std::atomic<size_t> busy_{0};           // slots not at rest
  std::optional<Sessions> sessions_;
};

}  // namespace

std::unique_ptr<Load> BrokerSessions(const std::string& target, size_t sessions, size_t in_flight) {
  return std::make_unique<SessionLoad>(target, sessions, in_flight);
}

}  // namespace distlock::bench
