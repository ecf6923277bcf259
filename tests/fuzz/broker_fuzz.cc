// SPDX-License-Identifier: Apache-2.0
//
// The core behind the rpc room's checks, between callers and a store that both do what the input says: it never
// crashes, answers each request once, promises no more than it may, and its time never stands still. Then the store
// behaves: everybody gets an answer, and when all streams have ended nothing is left.
#include <algorithm>
#include <utility>
#include <vector>

#include "bytes.h"
#include "callers.h"
#include "core/broker.h"
#include "core/check.h"
#include "toy_store.h"

namespace {

using distlock::core::BrokerConfig;
using distlock::core::BrokerStats;
using distlock::core::Duration;
using distlock::core::Effect;
using distlock::core::Input;
using distlock::core::Instant;
using distlock::core::Tick;
using distlock::fuzz::Bytes;
using distlock::fuzz::Callers;
using distlock::fuzz::ToyStore;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
namespace core = distlock::core;
namespace v1 = distlock::v1;

constexpr Instant kDawn(hours(24 * 400));
constexpr Instant kDusk(hours(24 * 365 * 10));
constexpr size_t kActionsMax = 300;
constexpr size_t kEffectsMax = 10'000;  // of one input; more is a loop
constexpr int kRoundsMax = 20'000;

BrokerConfig Config() {
  BrokerConfig config;
  config.max_leases_per_session = 6;
  return config;
}

class World {
 public:
  explicit World(Bytes bytes) : bytes_(bytes), broker_(Config()), callers_(Config().validity) {}

  void Run() {
    for (size_t i = 0; i < kActionsMax && !bytes_.empty(); ++i) {
      Act();
      DeliverRequests();
    }
    Settle();
  }

 private:
  void Act() {
    switch (bytes_.Below(18)) {
      case 0:
        return callers_.Session(bytes_.Byte(), bytes_.LongText());
      case 1:
      case 2:
      case 3:
        return Compose();
      case 4:
        return callers_.Hold(bytes_.Byte(), Spec());
      case 5:
        return AcquireDetached();
      case 6:
        return callers_.Renew(LeaseId());
      case 7:
        return callers_.Release(LeaseId());
      case 8:
        return callers_.Break(bytes_.Byte());
      case 9:
      case 10:
      case 11:
        return AnswerOne();
      case 12:
        return Step(store_.Notice(bytes_, now_));
      case 13:
        return bytes_.Flag() ? Step(core::StoreUp{}) : Step(core::StoreClockStep{seconds(bytes_.Number<int16_t>())});
      case 14:
        return Step(bytes_.Flag() ? Input(core::StoreDown{"down"}) : Input(core::ChannelUp{}));
      case 15:
      case 16:
        return Pass();
      default:
        return ActSeldom();
    }
  }

  void ActSeldom() {
    switch (bytes_.Below(8)) {
      case 0:
        return Step(core::Drain{seconds(bytes_.Byte())});
      case 1:
      case 2:
        return callers_.Watch(Key());
      case 3:
        return Step(core::ChangeNotice{core::LockName::Encode("default", Key())});
      case 4: {
        const core::GrantNotice grant = store_.Notice(bytes_, now_);
        return Step(core::WantedNotice{grant.name, grant.owner, grant.token});
      }
      default:
        return Step(Tick{});
    }
  }

  std::string Key() { return std::string(1, static_cast<char>('a' + bytes_.Below(2))); }

  v1::LockSpec Spec() {
    v1::LockSpec spec;
    spec.set_key(Key());
    const uint8_t bits = bytes_.Byte();
    if ((bits & 1) != 0) spec.mutable_ttl()->set_seconds(bytes_.Below(8) + 1);
    if ((bits & 2) != 0) spec.mutable_max_wait()->set_nanos(static_cast<int32_t>(bytes_.Below(4)) * 200'000'000);
    if ((bits & 4) != 0) spec.mutable_max_hold()->set_seconds(bytes_.Below(16));
    if ((bits & 8) != 0) spec.mutable_lock_delay()->set_seconds(bytes_.Below(8));
    if ((bits & 16) != 0) spec.set_on_disconnect(static_cast<v1::OnDisconnect>(bytes_.Below(4)));
    spec.set_tell_wanted((bits & 32) != 0);
    return spec;
  }

  std::string LeaseId() {
    const auto& known = callers_.lease_ids();
    if (known.empty() || bytes_.Below(16) == 0) return std::string(bytes_.Text());
    return known[bytes_.Byte() % known.size()];
  }

  void Compose() {
    const size_t slot = bytes_.Byte();
    v1::SessionRequest request;
    for (size_t count = bytes_.Below(3) + 1; count > 0; --count) {
      v1::SessionCommand& command = *request.add_commands();
      command.set_id(bytes_.Below(12));
      switch (bytes_.Below(8)) {
        case 0:
        case 1:
        case 2:
          *command.mutable_acquire()->add_locks() = Spec();
          if (bytes_.Below(8) == 0) *command.mutable_acquire()->add_locks() = Spec();
          break;
        case 3:
          command.mutable_release()->set_acquire_id(bytes_.Below(12));
          break;
        case 4:
          command.mutable_release()->set_lease_id(LeaseId());
          break;
        case 5:
          command.mutable_cancel()->set_acquire_id(bytes_.Below(12));
          break;
        case 6:
          command.mutable_heartbeat()->set_seq(bytes_.Byte());
          break;
        default:
          if (bytes_.Below(4) == 0) command.mutable_goodbye();
          break;
      }
    }
    callers_.Session(slot, request);
  }

  void AcquireDetached() {
    v1::AcquireRequest request;
    *request.add_locks() = Spec();
    if (bytes_.Below(8) == 0) *request.add_locks() = Spec();
    for (v1::LockSpec& spec : *request.mutable_locks()) spec.clear_tell_wanted();
    if (bytes_.Flag()) request.set_request_id(std::string(16, static_cast<char>('a' + bytes_.Below(3))));
    callers_.Acquire(request);
  }

  void AnswerOne() {
    if (!store_.idle()) Step(store_.Answer(bytes_, now_));
  }

  void Pass() {
    switch (bytes_.Below(6)) {
      case 0:
        return PassTo(now_ + Duration(1));
      case 1:
        return PassTo(now_ + milliseconds(bytes_.Byte()));
      case 2:
        return PassTo(now_ + milliseconds(bytes_.Number<uint16_t>()));
      case 3:
        return PassTo(std::max(now_, broker_.NextDeadline()));
      case 4:
        now_ = std::min(kDusk, now_ + milliseconds(bytes_.Number<uint16_t>()));
        return;  // nobody looks
      default:
        now_ = std::min(kDusk, now_ + hours(bytes_.Byte()));
        return;
    }
  }

  // Every deadline on the way at its own instant.
  void PassTo(Instant end) {
    end = std::min(end, kDusk);
    for (int rounds = 0; broker_.NextDeadline() <= end; ++rounds) {
      DISTLOCK_CHECK(rounds < kRoundsMax);
      TickAtDeadline();
    }
    now_ = end;
  }

  void TickAtDeadline() {
    now_ = std::max(now_, broker_.NextDeadline());
    Step(Tick{});
    DISTLOCK_CHECK(broker_.NextDeadline() > now_);
    DeliverRequests();
  }

  void Step(Input input) {
    std::vector<Effect> effects;
    broker_.Step(now_, std::move(input), effects);
    broker_.Check();
    DISTLOCK_CHECK(effects.size() <= kEffectsMax);
    for (Effect& effect : effects) {
      if (auto* command = std::get_if<core::StoreCommand>(&effect)) store_.Take(std::move(*command));
      if (auto* notify = std::get_if<core::Notify>(&effect)) callers_.Told(std::move(*notify));
      if (std::holds_alternative<core::DrainComplete>(effect)) DISTLOCK_CHECK(!std::exchange(drained_, true));
    }
  }

  void DeliverRequests() {
    for (Input input; callers_.NextInput(&input);) Step(std::move(input));
  }

  // ---- The end ----

  void AnswerAllWell() {
    while (!store_.idle()) {
      Step(store_.AnswerWell(now_));
      DeliverRequests();
    }
  }

  void Settle() {
    Step(core::StoreUp{});
    const Instant patience = now_ + hours(1);
    while (true) {
      callers_.HeartbeatAll();
      DeliverRequests();
      AnswerAllWell();
      if (callers_.AllAnswered()) break;
      DISTLOCK_CHECK(now_ < patience);
      const Instant next = std::min(now_ + milliseconds(500), broker_.NextDeadline());
      now_ = std::max(now_, next);
      Step(Tick{});
      DeliverRequests();
    }
    callers_.EndAll();
    DeliverRequests();
    for (int rounds = 0; !Empty(); ++rounds) {
      DISTLOCK_CHECK(rounds < kRoundsMax);
      AnswerAllWell();
      if (broker_.NextDeadline() != core::kNever) TickAtDeadline();
    }
    DISTLOCK_CHECK(store_.idle());
  }

  bool Empty() const {
    const BrokerStats stats = broker_.Stats();
    return stats.sessions + stats.leases + stats.waiters + stats.pending_releases + stats.queues + stats.watches +
               stats.ops + stats.timers ==
           0;
  }

  Bytes bytes_;
  Instant now_ = kDawn;
  core::Broker broker_;
  ToyStore store_;
  Callers callers_;
  bool drained_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  World(Bytes(data, size)).Run();
  return 0;
}
