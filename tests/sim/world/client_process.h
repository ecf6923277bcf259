// SPDX-License-Identifier: Apache-2.0
//
// A program that uses locks: it wishes for one, waits, holds, writes to a store that checks tokens, gives back, gives up,
// and dies, as the temper has it. How it speaks with brokers is its kind's: see library_client.h, hold_client.h and
// detached_client.h. All that it may believe goes into the history.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distlock/v1/lock.pb.h"
#include "world/broker_process.h"

namespace distlock::sim {

// A store of data that is written under the locks: for each it rejects tokens smaller than it has seen.
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

// Whom clients know.
struct Neighbours {
  std::vector<std::unique_ptr<BrokerProcess>>* brokers;
  FencedRegister* data;
};

class ClientProcess : public Process {
 public:
  ClientProcess(Env& env, int number, const std::string& kind, Neighbours neighbours);

  virtual void Start();
  // As if killed; starts again when `down` has passed.
  void Kill(Duration heard_within, Duration down);
  bool idle() const { return wishes_.empty(); }
  // What it still waits for, in words.
  std::string Waiting() const;
  // Whether a fault may make it stand still: not one that counts time from receipt.
  virtual bool may_pause() const { return true; }
  // Ends everything in good order; for the end of the world.
  virtual void Leave() = 0;

 protected:
  enum class Stage : uint8_t { kAsking, kHeld, kOver };
  struct Wish {
    int64_t id = 0;      // within this client
    int64_t lease = -1;  // its number in the history, as long as one attempt lasts
    int32_t lock = -1;
    std::string key;
    Duration ttl{};
    std::optional<Duration> max_wait;
    Duration max_hold{};
    Duration lock_delay{};
    core::OnDisconnect on_disconnect = core::OnDisconnect::kSafe;
    core::Want want;
    bool reentrant = false;  // taken twice
    bool together = false;   // with others
    Stage stage = Stage::kAsking;
    bool releasing = false;
    bool downgrades = false;  // once it has it, it goes on as a reader
    bool reads = false;       // and does
    uint64_t token = 0;
    Instant until{};  // world time
  };

  // What a kind does.
  virtual void Ask(Wish& wish) = 0;
  virtual void GiveUp(Wish& wish) = 0;
  virtual void GiveBack(Wish& wish) = 0;
  virtual void Downgrade(Wish&) {}
  virtual void Vanish() = 0;            // the process is gone: forget everything
  virtual bool Checks(Wish& wish) = 0;  // what the program's check says at this moment
  virtual size_t most_wishes() const { return 1; }
  virtual bool detached() const { return false; }
  virtual bool by_heartbeat() const { return false; }
  // Several locks, all or nothing: asks for these wishes, which are alike in how long they wait. Only of kinds that take them.
  virtual bool takes_together() const { return false; }
  virtual void AskTogether(const std::vector<int64_t>& /*ids*/) {}

  // What kinds tell. A wish that has ended, was refused or is forgotten is gone after the call.
  void OnGranted(Wish& wish, uint64_t token);
  void OnBelief(Wish& wish, Duration local_until);
  void OnEnded(Wish& wish, EndedWhy why, int64_t value = 0);
  void OnRefused(Wish& wish, core::RefusalReason reason);
  void OnReleased(Wish& wish, core::ReleaseOutcome outcome);
  void Forget(const Wish& wish) { wishes_.erase(wish.id); }  // nobody will ever know
  void Note(const Wish& wish, Record record);
  Wish* Find(int64_t id);
  // What waits is asked for anew, as another owner: to the store and to the history that is another lease.
  void AskAnew(Wish& wish);
  static std::string LabelOf(const Wish& wish) { return "lease " + std::to_string(wish.lease); }
  std::map<int64_t, Wish>& wishes() { return wishes_; }
  v1::LockSpec SpecOf(const Wish& wish) const;
  // Any that is alive; null when none is.
  BrokerProcess* LiveBroker();
  BrokerProcess& Home() { return *(*neighbours_.brokers)[home_]; }
  void MoveHome();

 private:
  void Act();
  void MakeWish();
  void MakeWishes();
  void LosePatience(int64_t id);
  void Draw(Wish& wish);
  void Number(Wish& wish);
  void Work(int64_t id);
  void GoOnAsReader(int64_t id);
  void Write(const Wish& wish);

  const Neighbours neighbours_;
  size_t home_ = 0;
  std::map<int64_t, Wish> wishes_;  // by id; not over
  int64_t next_id_ = 1;
};

}  // namespace distlock::sim
