// SPDX-License-Identifier: Apache-2.0
//
// A connection that is kept alive: connects, logs in, and after any loss connects again with jittered back-off.
// Commands go out in order and are answered in order.
//
// Once ready, the link notices silence by itself: when a command has been unanswered for kSilence and nothing was heard
// meanwhile, it ends the connection and makes a new one. There is no other timeout of a command: the core has
// deadlines.
//
// Thread: the loop's. Invariants: each command is answered exactly once (a reply; not sent; unknown: its bytes may have
// left), unless Stop comes first; no answer comes from within Send, Reconnect or Flush; when the connection is lost,
// OnLinkDown comes before the answers to pending commands.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/types.h"
#include "store/redis/command_sender.h"
#include "store/redis/transport.h"
#include "store/store_options.h"
#include "store/store_url.h"

namespace distlock::store {

// A server that is silent for so long while a command waits is taken for dead.
inline constexpr core::Duration kSilence = std::chrono::seconds(1);
// A server that was named a moment ago may become ready at any time: for so long it is tried without back-off.
inline constexpr core::Duration kHurry = std::chrono::seconds(2);

struct LinkOptions {
  ServerAddress address;
  // Asked at each connect, so that a changed password is used. An empty password: no log-in.
  std::function<Credentials()> credentials;
  int db = 0;
  core::Duration connect_timeout = std::chrono::seconds(3);  // from the first packet to MarkReady
  bool subscriber = false;                                   // messages arrive unasked, and are no replies
  uint64_t seed = 1;                                         // of the back-off's jitter
};

class Link : public CommandSender, private Transport::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Logged in; Send works. MarkReady must follow within the connect timeout, or the link starts over.
    virtual void OnLinkConnected() = 0;
    // The connection, or the attempt at one, has ended. Unavailable: it may get better by itself. Other codes: somebody
    // has to change something.
    virtual void OnLinkDown(const absl::Status& why) = 0;
    virtual void OnLinkPush(const redisReply& /*push*/) {}
  };

  Link(const Network& network, LinkOptions options, Owner* owner);
  ~Link() override;

  void Start();
  void Send(std::string_view command, Done done) override;
  // Answers "not sent", from the loop.
  void Reject(Done done, std::string_view cause);
  void Flush() override;

  // The owner has finished its own preparations: silence counts from now on, and the next back-off is the shortest.
  void MarkReady();
  // Drops the connection and makes a new one: at once, or after the usual back-off when `why` is not Unavailable.
  void Reconnect(const absl::Status& why);
  // From now on the server is at `address`. Drops the connection, even one that works, and makes a new one at once;
  // for kHurry, retries come each 100 ms at the latest. Before Start it only notes the address.
  void MoveTo(const ServerAddress& address, const absl::Status& why);
  // The server may be back: the next attempt comes at once, and retries as after MoveTo.
  void Hurry();
  void Stop();

  // Logged in; Send works.
  bool connected() const { return connection_ != nullptr && logged_in_; }

 private:
  struct Pending {
    uint64_t end = 0;  // of its bytes in the connection's stream
    core::Instant sent{};
    Done done;
  };
  struct Ended {
    Answer::Kind kind = Answer::Kind::kNotSent;
    std::string cause;
    Done done;
  };

  void OnConnected() override;
  void OnReply(ReplyPtr reply) override;
  void OnClosed(const std::string& cause) override;

  void Connect();
  void LogIn();
  void CheckLogIn(const Answer& answer, std::string_view step);
  void Drop(const absl::Status& why);
  void Deliver();
  void ExpectAnswer(core::Instant now);
  void CheckSilence();
  core::Duration NextDelay();

  // Const after construction.
  const std::shared_ptr<Dialer> dialer_;
  const std::shared_ptr<Timers> timers_;
  const LinkOptions options_;
  Owner* const owner_;

  ServerAddress address_;
  core::Instant hurry_until_{};
  std::shared_ptr<Transport> connection_;
  bool logged_in_ = false;
  bool ready_ = false;
  bool stopped_ = false;
  bool connect_at_once_ = false;
  int failures_ = 0;  // since the last MarkReady
  std::deque<Pending> pending_;
  std::vector<Ended> ended_;                     // answered by the next Deliver
  std::vector<absl::Status> downs_;              // told by the next Deliver
  std::unique_ptr<std::mt19937_64> random_;      // of the jitter; since the first back-off, for it takes 2.5 KiB
  core::Instant quiet_since_{};                  // the last reply, or the first command after none was pending
  core::Instant silence_due_{};                  // when silence_timer_ shall fire
  const std::unique_ptr<Timer> connect_timer_;   // back-off
  const std::unique_ptr<Timer> patience_timer_;  // the connect timeout
  const std::unique_ptr<Timer> silence_timer_;
  const std::unique_ptr<Timer> deliver_timer_;
};

}  // namespace distlock::store
