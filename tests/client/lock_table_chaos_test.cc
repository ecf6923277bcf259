// SPDX-License-Identifier: Apache-2.0
//
// The lock table with two brokers of one store that drain, break and answer late, in random order. Whatever happens,
// the table believes in no lease that the store has given up.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lock_table.h"

namespace distlock::internal {
namespace {

constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kPromise = 3000 * kMilli;
constexpr int64_t kTtl = 15'000 * kMilli;

// Each key is locked once; a holder is named by its lease_id.
class Store {
 public:
  int64_t Take(const std::string& key, const std::string& holder) {
    holders_[key] = holder;
    return ++token_;
  }
  bool Has(const std::string& key, const std::string& holder) const {
    const auto found = holders_.find(key);
    return found != holders_.end() && found->second == holder;
  }
  bool Taken(const std::string& key) const { return holders_.contains(key); }
  bool Free(const std::string& key, const std::string& holder) { return Has(key, holder) && holders_.erase(key) > 0; }
  // A repeat of `request` takes the lease over from an earlier try. False: `from` does not hold it, nor such a try.
  bool Adopt(const std::string& key, const std::string& from, const std::string& request, const std::string& holder) {
    const auto found = holders_.find(key);
    if (found == holders_.end()) return false;
    if (found->second != from && requests_[found->second] != request) return false;
    found->second = holder;
    requests_[holder] = request;
    return true;
  }
  std::map<std::string, int64_t> tokens;

 private:
  std::map<std::string, std::string> holders_;
  std::map<std::string, std::string> requests_;  // by the holder that adopted
  int64_t token_ = 0;
};

// A broker's holds for the session of one link.
struct Held {
  std::string key;
  std::string holder;
  int64_t believed_until;
};
struct Later {
  std::string key;
  std::string holder;
  int64_t at_ns;
};
struct Session {
  bool open = false;
  bool draining = false;
  bool dead = false;  // the broker does not hear it any more
  int64_t last_seq = 0;
  std::map<int64_t, Held> leases;
  std::deque<v1::SessionCommand> commands;  // on their way to the broker
  std::deque<v1::SessionEvent> events;      // on their way to the client
};

class Chaos {
 public:
  explicit Chaos(uint32_t seed) : dice_(seed) {}

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) Step();
  }

  // One session that nothing happens to: everything that has ended must become free.
  void CalmDown() {
    End(0, /*told=*/true);
    End(1, /*told=*/true);
    for (int64_t until = now_ + 2 * kTtl; now_ < until; now_ += 20 * kMilli) {
      FreeWhatIsDue();
      if (!streams_[table_.present()].open) Start();
      Carry(table_.present());
      if (table_.wake_ns() <= now_) table_.Tick(now_, fx_);
      Settle();
    }
    EXPECT_FALSE(table_.moving());
    EXPECT_EQ(answered_, asked_);
    for (const LeasePtr& lease : leases_) {
      Check(*lease);
      if (lease->phase != Lease::Phase::kEnded || lease->token == 0) continue;
      EXPECT_FALSE(store_.Taken(lease->spec->wire.key())) << lease->spec->wire.key() << " is left behind";
    }
  }

  int moved() const { return moved_; }
  int lost() const { return lost_; }

 private:
  int Roll(int bound) { return static_cast<int>(dice_() % static_cast<uint32_t>(bound)); }

  void Step() {
    now_ += Roll(4) == 0 ? Roll(400) * kMilli : Roll(20) * kMilli;
    FreeWhatIsDue();
    const int link = Roll(2);
    switch (Roll(12)) {
      case 0:
        Acquire();
        break;
      case 1:
        if (Roll(3) == 0) Release();
        break;
      case 2:
        if (Roll(30) == 0) End(link, /*told=*/Roll(2) == 0);
        break;
      case 3:
        if (Roll(20) == 0) Drain(link);
        break;
      case 4:
        if (!streams_[table_.present()].open) Start();
        break;
      default:
        Carry(link);
    }
    for (const int one : {0, 1}) {
      if (streams_[one].open && table_.at(one).IsLapsed(now_)) End(one, /*told=*/true);
    }
    if (table_.wake_ns() <= now_) table_.Tick(now_, fx_);
    Settle();
    for (const LeasePtr& lease : leases_) Check(*lease);
  }

  void Acquire() {
    if (leases_.size() > 200) return;
    LockOptions options;
    options.resume = Roll(2) == 0;
    const auto spec = MakeSpec("k" + std::to_string(leases_.size()), std::move(options));
    const RequestPtr request = table_.Acquire({&spec, 1}, std::nullopt, [](const Result<Leases>&) {}, now_, fx_);
    leases_.push_back(request->leases.front());
  }

  void Release() {
    if (leases_.empty()) return;
    const LeasePtr& lease = leases_[static_cast<size_t>(Roll(static_cast<int>(leases_.size())))];
    if (lease->phase != Lease::Phase::kHeld) return;
    ++asked_;
    table_.Release(lease, [this](ReleaseOutcome) { ++answered_; }, now_, fx_);
  }

  void Start() {
    streams_[table_.present()] = Session{};
    streams_[table_.present()].open = true;
    table_.OnStarted(now_, std::nullopt, std::nullopt, fx_);
  }

  // The client may hear of it much later: until its promises end, then it gives the stream up by itself.
  void End(int link, bool told) {
    Session& session = streams_[link];
    if (!session.open) return;
    for (const auto& [id, held] : session.leases) due_.push_back({held.key, held.holder, held.believed_until});
    session.leases.clear();
    session.dead = true;
    if (!told) return;
    session.open = false;
    table_.OnBroken(EndCause::kDisconnected, "cut", std::nullopt, now_, fx_, link);
  }

  void Drain(int link) {
    Session& session = streams_[link];
    if (!session.open) return;
    if (!std::exchange(session.draining, true)) {
      session.events.emplace_back().mutable_draining()->mutable_time_left()->set_seconds(5);
      return;
    }
    for (const auto& [id, held] : session.leases) {
      due_.push_back({held.key, held.holder, held.believed_until});
      v1::SessionEvent& lost = session.events.emplace_back();
      lost.set_id(id);
      lost.mutable_lost()->set_reason(v1::LOST_REASON_DRAINED);
    }
    session.leases.clear();
  }

  void Carry(int link) {
    Session& session = streams_[link];
    if (!session.open) return;
    if (Roll(2) == 0) {
      for (v1::SessionRequest message; table_.Pack(now_, link, message); message.Clear()) {
        for (const v1::SessionCommand& command : message.commands()) session.commands.push_back(command);
      }
    }
    for (int n = Roll(4); n > 0 && !session.commands.empty() && !session.dead; --n) {
      const v1::SessionCommand command = std::move(session.commands.front());
      session.commands.pop_front();
      Handle(session, command);
    }
    for (int n = Roll(4); n > 0 && !session.events.empty() && session.open; --n) {
      const v1::SessionEvent event = std::move(session.events.front());
      session.events.pop_front();
      table_.OnEvent(event, now_, fx_, link);
    }
  }

  static v1::SessionEvent& Answer(Session& session, int64_t id) {
    v1::SessionEvent& event = session.events.emplace_back();
    event.set_id(id);
    return event;
  }

  void Refuse(Session& session, int64_t id, v1::RefusalReason reason) {
    Answer(session, id).mutable_refused()->set_reason(reason);
  }

  void Grant(Session& session, int64_t id, const std::string& key, int64_t believed_until) {
    const std::string holder = "h" + std::to_string(holders_);
    session.leases[id] = {key, holder, believed_until};
    v1::Grant& grant = *Answer(session, id).mutable_granted();
    grant.set_fencing_token(store_.tokens[key]);
    grant.set_lease_id(holder);
    grant.set_echo_seq(session.last_seq);
    grant.mutable_valid_for()->set_seconds(3);
  }

  void Handle(Session& session, const v1::SessionCommand& command) {
    const int64_t id = command.id();
    if (command.has_open()) {
      v1::SessionOpened& opened = *Answer(session, id).mutable_opened();
      opened.mutable_validity()->set_seconds(3);
      opened.add_features("adopt");
    } else if (command.has_heartbeat()) {
      Renew(session, command.heartbeat().seq());
    } else if (command.has_goodbye()) {
      for (const auto& [acquire, held] : session.leases) store_.Free(held.key, held.holder);
      session.leases.clear();
    } else if (command.has_release()) {
      const auto found = session.leases.find(command.release().acquire_id());
      const bool freed = found != session.leases.end() && store_.Free(found->second.key, found->second.holder);
      if (found != session.leases.end()) session.leases.erase(found);
      Answer(session, id)
          .mutable_released()
          ->set_outcome(freed ? v1::RELEASE_OUTCOME_RELEASED : v1::RELEASE_OUTCOME_ALREADY_GONE);
    } else if (command.has_cancel()) {
      Refuse(session, command.cancel().acquire_id(), v1::REFUSAL_REASON_CANCELLED);
      const auto found = session.leases.find(command.cancel().acquire_id());
      if (found == session.leases.end()) return;
      store_.Free(found->second.key, found->second.holder);
      session.leases.erase(found);
    } else if (session.draining) {
      Refuse(session, id, v1::REFUSAL_REASON_DRAINING);
    } else if (command.has_acquire()) {
      const std::string& key = command.acquire().locks(0).key();
      if (store_.Taken(key)) return;  // by a try of this client whose stream broke: it waits
      ++holders_;
      store_.tokens[key] = store_.Take(key, "h" + std::to_string(holders_));
      Grant(session, id, key, now_ + kPromise);
    } else if (command.has_adopt()) {
      Adopt(session, id, command.adopt());
    }
  }

  void Adopt(Session& session, int64_t id, const v1::AdoptLease& adopt) {
    ++holders_;
    const std::string holder = "h" + std::to_string(holders_);
    if (!store_.Adopt(adopt.lock().key(), adopt.lease_id(), adopt.request_id(), holder)) {
      return Refuse(session, id, v1::REFUSAL_REASON_NOT_HOLDER);
    }
    ++moved_;
    // The former promise may be believed in for as long.
    Grant(session, id, adopt.lock().key(), now_ + kTtl);
    if (Roll(4) > 0) return;
    // The store's answer is lost; the broker lets the ttl end what it does not know of.
    due_.push_back({adopt.lock().key(), holder, now_ + kTtl});
    session.leases.erase(id);
    session.events.pop_back();
    Refuse(session, id, v1::REFUSAL_REASON_STORE_UNAVAILABLE);
  }

  void Renew(Session& session, int64_t seq) {
    session.last_seq = seq;
    for (auto it = session.leases.begin(); it != session.leases.end();) {
      const auto lease = it++;
      if (store_.Has(lease->second.key, lease->second.holder)) {
        lease->second.believed_until = std::max(lease->second.believed_until, now_ + kPromise);
        continue;
      }
      Answer(session, lease->first).mutable_lost()->set_reason(v1::LOST_REASON_MOVED);
      session.leases.erase(lease);
    }
    v1::HeartbeatAck& ack = *Answer(session, 0).mutable_heartbeat_ack();
    ack.set_seq(seq);
    ack.mutable_valid_for()->set_seconds(3);
  }

  void FreeWhatIsDue() {
    for (const Later& later : due_) {
      if (later.at_ns <= now_) store_.Free(later.key, later.holder);
    }
    std::erase_if(due_, [this](const Later& later) { return later.at_ns <= now_; });
  }

  void Settle() {
    std::exchange(fx_, {}).Run({});
    EXPECT_LE(answered_, asked_);
  }

  void Check(const Lease& lease) {
    if (lease.phase == Lease::Phase::kEnded && lease.cause != EndCause::kReleased) lost_ += lease.token > 0 ? 1 : 0;
    if (lease.phase != Lease::Phase::kHeld || now_ >= lease.deadline_ns) return;
    const std::string& key = lease.spec->wire.key();
    EXPECT_TRUE(store_.Taken(key)) << key << " is believed in, and free";
    EXPECT_EQ(store_.tokens[key], lease.token);
  }

  std::mt19937 dice_;
  int64_t now_ = 0;
  Store store_;
  std::vector<Later> due_;
  Session streams_[LockTable::kLinks];
  int64_t holders_ = 0;
  int requests_ = 0;
  int moved_ = 0;
  int lost_ = 0;
  int asked_ = 0;
  int answered_ = 0;
  Effects fx_;
  LockTable table_{{.address = "nowhere",
                    .brokers = 2,
                    .label = "chaos",
                    .unreachable_timeout_ns = 100'000 * kMilli,
                    .connect_timeout_ns = 5000 * kMilli,
                    .reissue_waits = true,
                    .random_id = [this] { return "r" + std::to_string(++requests_); }}};
  std::vector<LeasePtr> leases_;
};

TEST(LockTableChaos, NothingIsBelievedInThatTheStoreHasGivenUp) {
  int moved = 0;
  int lost = 0;
  for (uint32_t seed = 1; seed <= 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed);
    chaos.Run(2000);
    chaos.CalmDown();
    moved += chaos.moved();
    lost += chaos.lost();
  }
  EXPECT_GT(moved, 1000) << "else this test says nothing";
  EXPECT_GT(lost, 100);
}

}  // namespace
}  // namespace distlock::internal
