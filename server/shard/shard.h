// SPDX-License-Identifier: Apache-2.0
//
// A shard is one core and one store, and the loop that gives them turns. A turn takes what the store has answered and
// what the mailbox holds, steps the core with each input, performs the effects, flushes the store once, tells each
// listener once and sets the timer. A shard knows nothing of what a lock means.
//
// A turn has two callers, and a mutex in Loop keeps them apart:
// - the shard's own thread, in Turn(). It runs all kinds of turns: posted inputs, store replies, timers, shutdown.
// - a thread that has just posted, in LentTurn(). This is only a shortcut: it saves the wake-up of a sleeping thread,
//   so it takes brief inputs only and leaves the rest to the shard's own thread. A thread opts in by owning a
//   LentTurns, as the gRPC threads of the rpc room do. Other posters wake the shard's own thread.
// CallForTurn() is where that choice is made, each time the mailbox becomes non-empty.
//
// The clock is read after an input was taken and before its effects leave. So the core's `now` is never later than the
// commands that it sends and never earlier than the message that it answers. The deadlines of clients rely on both.
//
// Thread: the public methods on any thread; everything else by the thread that holds the loop, which is asserted.
// Life: Start once, Stop once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/broker.h"
#include "core/messages.h"
#include "shard/backlog.h"
#include "shard/listeners.h"
#include "shard/loop.h"
#include "shard/mail_share.h"
#include "shard/mailbox.h"
#include "shard/shard_set.h"
#include "shard/store_pace.h"
#include "store/store.h"

namespace distlock::shard {

// A question to the store. It bypasses the core, because no decision about a lock depends on it. Called once, within a
// turn; with null, on any thread, when the shard has stopped.
using StoreQuery = std::function<void(store::StoreReader*)>;

// One item of the mailbox: an input for the core, or a question to the store. A non-null sink is attached to `session`
// before `what` is handled; a non-null share counts it until it is handled.
struct Envelope {
  std::variant<core::Input, StoreQuery> what;
  core::SessionId session = 0;  // of the input; 0: of none
  std::shared_ptr<Sink> sink;
  MailShare* share = nullptr;
};

class Shard final : private store::StoreListener {
 public:
  // `on_drained` runs within a turn for each DrainComplete. Of `options`, `broker` is this shard's own.
  Shard(int index, const ShardSetOptions& options, std::function<void()> on_drained);
  ~Shard() override;  // stops

  void Start();
  // Returns when the thread has ended: inputs not handled by then are gone, the store is stopped.
  void Stop();

  [[nodiscard]] bool TryPost(Envelope envelope) { return mailbox_.TryPost(std::move(envelope)); }
  [[nodiscard]] bool TryPost(std::vector<Envelope> envelopes) { return mailbox_.TryPost(std::move(envelopes)); }
  [[nodiscard]] bool TryPostFirst(Envelope envelope) { return mailbox_.TryPostFirst(std::move(envelope)); }
  void Post(Envelope envelope);

  // For LentTurns: runs a turn on the calling thread for what was posted, at most 64 brief inputs. Wakes the shard's
  // own thread for what is left, and for everything when that thread is at work.
  void LentTurn();

  ShardStatus Status() const;

 private:
  void OnStoreInput(core::Input&& input) override;

  void Run();
  // Work waits in the mailbox: the posting thread will lend a turn, or the shard's own thread is woken.
  void CallForTurn();
  void Turn();
  void HandleStoreInputs();
  void TakeMail();
  void HandleMail();
  void HandleInTurn();
  // So much waits for the store that what is sent now, a renewal first of all, would be late.
  bool StoreIsBusy() const;
  // True when the cost of handling it does not grow with the number of leases of its session.
  bool IsBrief(const Envelope& envelope) const;
  void EndTurn();
  static void Send(std::vector<std::shared_ptr<Sink>>& told);
  void Handle(Envelope& envelope);
  void Step(core::Input&& input);
  void Perform(core::Instant now, core::Effect& effect);
  void Submit(core::Instant now, core::StoreCommand&& command);
  void NoteStoreState(bool up, const std::string& cause);
  void NoteStoreReply(core::Instant now, const core::StoreReply& reply);
  void PublishStatus();
  // nullopt: it is too early for another look.
  std::optional<core::BrokerLoad> NewLoad(const core::BrokerStats& stats);
  void ShutDown();

  // Constant after Start.
  const int index_;
  const std::function<std::unique_ptr<store::Store>(int, uv_loop_t*)> make_store_;
  Observer* const observer_;
  const std::vector<std::string> load_namespaces_;
  const std::function<void()> on_drained_;
  std::thread thread_;

  // Safe on any thread.
  Loop loop_;  // declared before mailbox_, which wakes it
  Mailbox<Envelope> mailbox_;
  std::atomic<bool> stopping_ = false;

  // Used by the shard's own thread only: the sinks told in its last turn. Empty when the next turn begins.
  std::vector<std::shared_ptr<Sink>> sending_;

  // Used by the thread that holds the loop.
  core::Broker broker_;
  std::unique_ptr<store::Store> store_;
  Listeners listeners_;
  std::vector<core::Input> store_inputs_;  // arrived in this turn
  std::vector<core::Input> store_batch_;   // being handled; kept for its memory
  std::vector<Envelope> first_;            // taken from the mailbox, to be handled before mail_
  size_t first_done_ = 0;                  // how many of first_ are handled
  std::vector<Envelope> mail_;             // taken from the mailbox
  size_t mail_done_ = 0;                   // how many of mail_ are handled
  Backlog<Envelope> backlog_;              // earlier than mail_: what a turn could not handle
  size_t handled_ = 0;                     // of mail_ and backlog_, in this turn
  core::Instant load_at_{};                // when the load was last looked at

  core::Duration lag_{};  // how late this turn's most overdue input or timer was
  std::vector<core::Effect> effects_;
  struct Sent {
    core::Verb verb{};
    core::Instant at;
  };
  absl::flat_hash_map<core::OpId, Sent> sent_;  // commands not answered yet
  StorePace pace_;
  bool store_up_ = false;
  std::string store_problem_ = "not connected yet";

  // Guarded by status_mu_.
  mutable std::mutex status_mu_;
  ShardStatus status_;
};

}  // namespace distlock::shard
