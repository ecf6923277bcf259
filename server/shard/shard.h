// SPDX-License-Identifier: Apache-2.0
//
// One thread with one core and one store, and whose turn it is. A turn of its loop: take what the store answered and
// what the mailbox holds, Step the core with each, perform the effects, flush the store once, tell each listener once,
// set the timer. It knows nothing of what a lock means.
// A thread that posts may have the turn itself (LentTurns) while the shard's own one waits.
//
// The clock is read after an input was taken and before its effects leave: so a `now` of the core is never later than
// the bytes it causes, and never earlier than the message it answers. Both bound what somebody may believe.
//
// Thread: the public methods on any thread; everything else where the loop is held, asserted. Life: Start once, Stop
// once.
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
#include "shard/listeners.h"
#include "shard/loop.h"
#include "shard/mailbox.h"
#include "shard/shard_set.h"
#include "store/store.h"

namespace distlock::shard {

// A question to the store; called with null, on any thread, when the shard has stopped.
using StoreTask = std::function<void(store::Store*)>;

// One item of the mailbox. A non-null sink is attached to `session` before `what` is handled.
struct Envelope {
  std::variant<core::Input, StoreTask> what;
  core::SessionId session = 0;
  std::shared_ptr<Sink> sink;
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
  void Post(Envelope envelope);

  // A turn on this thread, for what was posted, if the shard's own thread is not at work. Else that one is woken, as it
  // is for what a lent turn leaves: whatever may take long.
  void LentTurn();

  ShardStatus Status() const;

 private:
  void OnStoreInput(core::Input&& input) override;

  void Run();
  void Turn();
  void HandleStoreInputs();
  void TakeMail();
  void HandleMail();
  // Its cost does not grow with what its session holds.
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
  void ShutDown();

  // Constant after Start.
  const int index_;
  const std::function<std::unique_ptr<store::Store>(int, uv_loop_t*)> make_store_;
  Observer* const observer_;
  const std::function<void()> on_drained_;
  std::thread thread_;

  // Safe on any thread by themselves.
  Loop loop_;  // before mailbox_, which wakes it
  Mailbox<Envelope> mailbox_;
  std::atomic<bool> stopping_ = false;

  // Of the shard's own thread: told in its last turn, and empty when the next one begins.
  std::vector<std::shared_ptr<Sink>> sending_;

  // Owned by who holds the loop.
  core::Broker broker_;
  std::unique_ptr<store::Store> store_;
  Listeners listeners_;
  std::vector<core::Input> store_inputs_;  // arrived in this turn
  std::vector<core::Input> store_batch_;   // being handled; kept for its memory
  std::vector<Envelope> mail_;             // taken from the mailbox
  size_t mail_done_ = 0;                   // how many of mail_ are handled
  bool mailbox_unread_ = false;            // this turn found mail_ unfinished
  core::Duration lag_{};                   // the longest that something due had to wait in this turn
  std::vector<core::Effect> effects_;
  struct Sent {
    core::Verb verb{};
    core::Instant at;
  };
  absl::flat_hash_map<core::OpId, Sent> sent_;  // commands not answered yet
  bool store_up_ = false;
  std::string store_problem_ = "not connected yet";

  // Guarded by status_mu_.
  mutable std::mutex status_mu_;
  ShardStatus status_;
};

}  // namespace distlock::shard
