// SPDX-License-Identifier: Apache-2.0
//
// All shards of the daemon. Each lock name lives on exactly one of them. The rpc room sees nothing else of the threads.
//
// Thread: every method on any thread. Life: Start once. Stop only when no thread calls Post any more: the server is
// shut down and all calls have ended. Destruction stops.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/broker.h"
#include "core/messages.h"
#include "shard/mail_share.h"
#include "shard/sink.h"
#include "store/store.h"

typedef struct uv_loop_s uv_loop_t;

namespace distlock::shard {

// A snapshot of one shard, at most one turn old.
struct ShardStatus {
  bool store_up = false;
  std::string store_problem;  // "" when up
  core::BrokerStats stats;
  core::BrokerLoad load;  // some seconds old, the more so the more leases there are; see `stats` whether any are left
  size_t mailbox_depth = 0;  // inputs that wait to be handled; not older than the call
};

// The read-only questions to a store, which do not pass through the core.
enum class Question { kInspect, kList };

// Gets the events of the shards, for metrics and logs. Called within a shard's turn; must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnFact(const core::Fact& fact) = 0;
  virtual void OnStoreState(int shard, bool up, const std::string& cause) = 0;
  virtual void OnLoopLag(core::Duration lag) = 0;
  // One store command was answered; `took` runs from handing it to the store to its reply.
  virtual void OnStoreReply(core::Verb verb, core::Duration took, bool ok) = 0;
  // Follows an OnStoreReply that was not ok and says why. nullopt: the command may have run.
  virtual void OnStoreFailure(core::Verb /*verb*/, std::optional<core::FailureKind> /*why*/) {}
  // An Inspect or List was answered, by a result or an error.
  virtual void OnQuestionAnswered(Question /*question*/, core::Duration /*took*/) {}
  // A TryPost failed. Called on the poster's thread.
  virtual void OnMailboxFull() {}
};

struct ShardSetOptions {
  int shards = 1;                   // 1..64
  size_t mailbox_capacity = 65536;  // inputs that may wait for one shard before TryPost fails
  core::BrokerConfig broker;        // seed is varied per shard
  // Makes the store of shard `index` on its loop; runs on that shard's thread.
  std::function<std::unique_ptr<store::Store>(int index, uv_loop_t* loop)> make_store;
  std::vector<std::string> load_namespaces;  // escaped: those whose load is told of apart
  Observer* observer = nullptr;              // may be null; outlives the set
};

class ShardSet {
 public:
  explicit ShardSet(ShardSetOptions options);
  ~ShardSet();
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

  void Start();
  void Stop();

  int size() const;
  int ShardOf(const core::LockName& name) const;
  core::SessionId NewSessionId();

  // New work (Acquire, Renew). Returns false and does nothing when too much waits for the shard: refuse the caller. A
  // non-null `sink` is attached to `session` before the input is handled.
  [[nodiscard]] bool TryPost(int shard, core::Input input, core::SessionId session = 0,
                             std::shared_ptr<Sink> sink = nullptr);
  // The inputs are of one session. All or nothing, with at most one wake-up. A non-null `share` counts them.
  [[nodiscard]] bool TryPost(int shard, std::vector<core::Input> inputs, MailShare* share = nullptr);
  // For OpenSession and Heartbeat: handled before all that waits, so that no heartbeat comes before its session.
  [[nodiscard]] bool TryPostFirst(int shard, core::Input input, std::shared_ptr<Sink> sink = nullptr,
                                  MailShare* share = nullptr);
  // Always delivers (Cancel, Release, Goodbye, StreamEnded). The number of admitted calls, and the shares of sessions,
  // bound what waits. StreamEnded detaches the session's sink after it was handled.
  void Post(int shard, core::Input input, core::SessionId session = 0, std::shared_ptr<Sink> sink = nullptr,
            MailShare* share = nullptr);

  // Read-only questions. `done` runs within a shard's turn.
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<store::LockView>)> done);
  void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size, std::string page_token,
            core::Duration timeout, std::function<void(absl::StatusOr<store::LockPage>)> done);

  // `done` runs once, within a shard's turn, when every shard has had a turn since the call.
  void AfterTurns(std::function<void()> done);

  // Drains every shard. `done` runs once, within a shard's turn, when no lease and no waiter is left. A second call can
  // only shorten the timeout.
  void Drain(core::Duration timeout, std::function<void()> done);

  std::vector<ShardStatus> Status() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distlock::shard
