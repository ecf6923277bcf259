// SPDX-License-Identifier: Apache-2.0
//
// A program that uses locks: it requests them, waits, holds, writes to a register that checks tokens, releases,
// cancels, and dies, as the temper says. The kinds differ in how they speak with brokers; see library_client.h,
// session_client.h, hold_client.h and detached_client.h. A request is called a wish here, because it may take several
// attempts. The history gets all its beliefs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distlock/v1/lock.pb.h"
#include "simulation/broker_process.h"

namespace distlock::sim {

// The data that clients write under their locks: for each lock it rejects tokens smaller than it has seen.
class FencedRegister {
 public:
  explicit FencedRegister(size_t locks) : seen_(locks) {}
  bool Write(int32_t lock, uint64_t token) {
    uint64_t& seen = seen_[static_cast<size_t>(lock)];
    if (token < seen) return false;
    seen = token;
    return true;
  }

 private:
  std::vector<uint64_t> seen_;
};

// The objects that clients use.
struct Neighbours {
  std::vector<std::unique_ptr<BrokerProcess>>* brokers;
  FencedRegister* data;
};

class ClientProcess : public Process {
 public:
  ClientProcess(Env& env, int number, const std::string& kind, Neighbours neighbours);

  virtual void Start();
  // Dies as if killed, and starts again when `down` has passed.
  void Kill(Duration heard_within, Duration down);
  bool idle() const { return wishes_.empty(); }
  // The wishes that it still waits for, as text.
  std::string Waiting() const;
  // Releases everything in good order, at the end of the simulation's run.
  virtual void Leave() = 0;

 protected:
  enum class Stage : uint8_t { kAsking, kHeld, kOver };
  struct Wish {
    int64_t id = 0;      // within this client
    int64_t lease = -1;  // the number of the present attempt in the history
    int32_t lock = -1;
    std::string key;
    Duration ttl{};
    std::optional<Duration> max_wait;
    Duration max_hold{};
    Duration lock_delay{};
    Duration min_hold{};
    core::OnDisconnect on_disconnect = core::OnDisconnect::kSafe;
    core::Want want;
    bool reentrant = false;  // acquired twice, by re-entry
    bool together = false;   // one of several locks of one request
    bool renewed = true;     // false: it is to last as long as its first ttl
    bool moves = false;      // adopted by the next session when this one breaks
    Stage stage = Stage::kAsking;
    bool releasing = false;
    bool downgrades = false;  // will downgrade the lock after its grant
    bool reads = false;       // has downgraded it
    uint64_t token = 0;
    Instant until{};  // simulation time
  };

  // Implemented by each kind.
  virtual void Ask(Wish& wish) = 0;
  virtual void GiveUp(Wish& wish) = 0;
  virtual void GiveBack(Wish& wish) = 0;
  virtual void Downgrade(Wish&) {}
  virtual void Vanish() = 0;            // the process has died: forget everything
  virtual bool Checks(Wish& wish) = 0;  // whether the program may use the lock at this moment
  virtual size_t most_wishes() const { return 1; }
  virtual bool detached() const { return false; }
  virtual bool by_heartbeat() const { return false; }
  virtual bool can_move() const { return false; }
  // The wait goes on in the next session or stream, which it opens at once.
  virtual bool keeps_place(const Wish&) const { return false; }
  // Requests several locks, all or nothing. These wishes have the same max_wait. Only for kinds that support it.
  virtual bool takes_together() const { return false; }
  virtual void AskTogether(const std::vector<int64_t>& /*ids*/) {}

  // Called by the kinds. A wish that has ended, was refused or is forgotten is deleted by the call.
  // `left`: of the belief, if nobody renews it; the wish is then given back shortly before its end, or earlier.
  void OnGranted(Wish& wish, uint64_t token, Duration left = Duration(0));
  void OnBelief(Wish& wish, Duration local_until);
  void OnEnded(Wish& wish, EndedWhy why, int64_t value = 0);
  void OnRefused(Wish& wish, core::RefusalReason reason);
  void OnReleased(Wish& wish, core::ReleaseOutcome outcome);
  void Forget(const Wish& wish) { wishes_.erase(wish.id); }  // its outcome will never be known
  void Note(const Wish& wish, Record record);
  Wish* Find(int64_t id);
  // Requests a waiting lock anew, as another owner: for the store and the history that is another lease.
  void AskAnew(Wish& wish);
  // Whether its request is sent again under the same request_id: for the store and the history it is the same lease.
  static bool KeepsPlace(const Wish& wish) { return wish.max_wait != Duration(0); }
  // Begins the request_ids of this life of the process.
  std::string PrefixOfRequests();
  static std::string LabelOf(const Wish& wish) { return "lease " + std::to_string(wish.lease); }
  std::map<int64_t, Wish>& wishes() { return wishes_; }
  const std::map<int64_t, Wish>& wishes() const { return wishes_; }
  v1::LockSpec SpecOf(const Wish& wish) const;
  // Any broker that is alive; null when none is.
  BrokerProcess* LiveBroker();
  BrokerProcess& Home() { return *(*neighbours_.brokers)[home_]; }
  void MoveHome();
  // To a broker that lives and does not drain, if there is one.
  void MoveOn();

 private:
  void Act();
  void MakeWish();
  void ProveDeath();
  void MakeWishes();
  void LosePatience(int64_t id);
  void Draw(Wish& wish);
  void Number(Wish& wish);
  void Work(int64_t id);
  void GoOnAsReader(int64_t id);
  void Write(const Wish& wish);

  const Neighbours neighbours_;
  size_t home_ = 0;
  std::map<int64_t, Wish> wishes_;  // by id; only wishes that have not ended
  int64_t next_id_ = 1;
  int lives_ = 0;
};

}  // namespace distlock::sim
