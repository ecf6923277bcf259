// SPDX-License-Identifier: Apache-2.0
//
// The servers of a quorum simulation, and the connections that brokers have to them. Single-threaded; deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "redis/redis_model.h"
#include "simulation/dice.h"
#include "store/redis/codec.h"
#include "store/redlock/ballot/ballot.h"
#include "store/redlock/vote_codec.h"

namespace distlock::sim::quorum {

using core::Duration;
using core::Instant;
namespace ballot = store::ballot;

// A connection's bytes arrive by then, or never.
inline constexpr Duration kMostLate = std::chrono::seconds(20);

// True time, and what is to happen in it.
class Course {
 public:
  Instant now() const { return now_; }
  void At(Instant when, std::function<void()> what) { queue_.push({std::max(when, now_), ++last_, std::move(what)}); }
  void After(Duration time, std::function<void()> what) { At(now_ + time, std::move(what)); }
  // False: nothing is left to happen before `end`.
  bool Next(Instant end) {
    if (queue_.empty() || queue_.top().at > end) return false;
    Entry entry = std::move(const_cast<Entry&>(queue_.top()));
    queue_.pop();
    now_ = entry.at;
    entry.what();
    return true;
  }

 private:
  struct Entry {
    Instant at;
    uint64_t serial;
    std::function<void()> what;
    friend bool operator<(const Entry& a, const Entry& b) { return a.at != b.at ? a.at > b.at : a.serial > b.serial; }
  };
  Instant now_{std::chrono::hours(1)};
  uint64_t last_ = 0;
  std::priority_queue<Entry> queue_;
};

// A clock that runs a little too fast or slow.
struct SkewedClock {
  double rate = 0;  // error
  Duration offset{};
  Instant Of(Instant time) const {
    const Duration since = time.time_since_epoch();
    return Instant(since + Duration(static_cast<int64_t>(static_cast<double>(since.count()) * rate)) + offset);
  }
};

struct Weather {
  Duration trip = std::chrono::microseconds(500);
  double spikes = 0;  // chance of a long delay
  double lost_notices = 0;
  double stalled_yields = 0;        // chance that the connection stalls with a yield in it, and is given up
  bool own_server_is_near = false;  // that with a broker's number; each connection takes the same time always
};

class Server {
 public:
  Server(Course& course, uint64_t number);

  int64_t NowUs() const;
  store::ReplyPtr Run(int client, std::string_view bytes);
  void Sync() { model.Advance(NowUs()); }
  // Restarted without its data.
  void Forget();

  RedisModel model;
  SkewedClock clock;
  uint64_t run = 0;               // lives so far
  int64_t held_off_until_us = 0;  // by its clock
  Instant paused_until{};
  Duration set_by{};     // of its clock
  size_t unseen_by = 0;  // brokers that have not seen how its clock was set last

 private:
  Course& course_;
};

// A broker's way to one server: a connection for commands and one for notices.
class Wire {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual Instant LocalTime() const = 0;
    virtual void OnInput(ballot::Input&& input) = 0;
    virtual void OnChannelUp() = 0;
    virtual void OnStoreNotice(core::Input&& notice) = 0;
    // A yield of this broker has taken the owner's vote under that token, at this moment.
    virtual void OnYielded(const core::OwnerId& owner, uint64_t token) = 0;
  };

  Wire(Course& course, Dice& dice, const Weather& weather, Server& server, int client, size_t node,
       const store::LockOptions& options, Owner* owner);

  // One way, without spikes. The shortest is half of it.
  static Duration LongestDelay(const Weather& weather) { return weather.trip * 2 / 3; }

  void Connect();
  void Send(ballot::NodeOp op, const ballot::NodeCommand& command);
  // Both connections end. What is on its way to the server is lost, or arrives up to 20 s later, in order, beside
  // whatever the next connection carries.
  void Break(Duration away);
  // Nothing of what the present connection carries, or is given from now on, reaches the server for so long, whether
  // the broker gives the connection up meanwhile or not.
  void Stall(Duration time);
  // Nothing passes towards the broker until then.
  void Silence(Duration time) { silent_until_ = std::max(silent_until_, course_.now() + time); }
  void OnMessage(std::string_view payload);
  bool open() const { return open_; }
  // Tells the broker whether the server counts.
  void TellFitness();
  // The broker looks at the server's clock, and is told how it was set, once the server can answer; then `seen`.
  void TellClockStep(Duration by, const std::function<void()>& seen);
  uint64_t commands() const { return commands_; }
  int subscriber() const { return client_ + 1; }

 private:
  struct Flying {
    const lua::ScriptSource* script = nullptr;
    store::SentCommand sent;  // of a plain command
    bool is_plain = false;
    std::optional<std::pair<core::OwnerId, uint64_t>> yields;
  };
  // At the server.
  void CheckYield(const Flying& flying, const redisReply& reply);

  Duration Delay();
  void Arrive(uint64_t generation, ballot::NodeOp op, const std::string& bytes, const Flying& flying);
  void Deliver(uint64_t generation, ballot::NodeOp op, const Flying& flying, const std::shared_ptr<redisReply>& reply,
               Instant sent);

  Course& course_;
  Dice& dice_;
  const Weather& weather_;
  Server& server_;
  const int client_;
  const size_t node_;
  Owner* const owner_;
  store::ServerClock clock_{500};
  store::Codec codec_;
  store::VoteCodec votes_;
  bool open_ = false;
  bool ever_open_ = false;
  uint64_t run_ = 0;
  uint64_t generation_ = 0;
  std::map<uint64_t, Instant> arrives_from_;  // by generation: what it carries reaches the server then at the earliest
  std::set<uint64_t> lost_;                   // generations whose commands reach the server no more
  Instant last_arrival_{};
  Instant last_delivery_{};
  Instant last_notice_{};
  Instant silent_until_{};
  std::map<ballot::NodeOp, Instant> outstanding_;
  uint64_t commands_ = 0;
};

}  // namespace distlock::sim::quorum
