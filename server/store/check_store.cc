// SPDX-License-Identifier: Apache-2.0
#include "store/check_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "store/redis/uv_timers.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::OwnerId kFirst{0xfe};
constexpr core::OwnerId kSecond{0xff};
constexpr std::chrono::seconds kProbeLife{2};
constexpr int kClosingTurns = 100;
constexpr std::chrono::milliseconds kAskStopped{100};
constexpr std::chrono::milliseconds kAskServers{20};

// Commands that need every right of the scripts, on a lock that nobody else uses and that leaves nothing behind. The
// verbs that are missing here (watch would leave its broker's name) run no other Redis commands.
std::vector<core::StoreCommand> ProbeCommands(const core::LockName& name) {
  return {
      core::StoreAcquire{.op = 1, .name = name, .owner = kFirst, .ttl = kProbeLife, .info = {}},
      core::StoreAcquire{.op = 2, .name = name, .owner = kSecond, .ttl = kProbeLife, .wait = true, .info = {}},
      core::StoreTend{.op = 3, .name = name, .asked = {kSecond}},
      // With any token, and with the token of the grant: the script has a path for each.
      core::StoreRenew{.op = 4, .items = {{name, kFirst, 0, kProbeLife}, {name, kFirst, 0, kProbeLife}}},
      core::StoreRelease{.op = 5, .name = name, .owner = kFirst, .block = {}},
      core::StoreWithdraw{.op = 6, .name = name, .owner = kSecond},
  };
}

class Checker : public StoreListener {
 public:
  Checker(uv_loop_t* loop, const MakeStore& make, StoreOptions options, core::Duration timeout, CheckWatch watch)
      : loop_(loop),
        watch_(std::move(watch)),
        url_(options.url.Masked()),
        wait_replicas_(options.wait_replicas),
        needs_all_servers_(options.locks.schema.task == SchemaTask::kAskUpgrade ||
                           options.locks.schema.task == SchemaTask::kUpgrade ||
                           options.quorum_check == StoreOptions::QuorumCheck::kReplace),
        probe_(ProbeCommands(core::LockName::Encode("distlock", Cat("start-up check of ", options.locks.broker_id)))),
        store_(make(loop, Wire(std::move(options)))),
        timer_(loop,
               [this] {
                 End(last_problem_.ok()
                         ? absl::UnavailableError(Cat(url_, ": no answer in time; is it the right address?"))
                         : last_problem_);
               }),
        stop_timer_(loop,
                    [this] {
                      if (watch_.stopped()) return End(absl::CancelledError("stopped"));
                      stop_timer_.Start(kAskStopped);
                    }),
        servers_timer_(loop, [this] { AwaitServers(); }) {
    timer_.Start(timeout);
    if (watch_.stopped) stop_timer_.Start(kAskStopped);
    store_->Start(this);
  }

  absl::StatusOr<std::vector<std::string>> Run() {
    uv_run(loop_, UV_RUN_DEFAULT);
    store_->Stop();
    timer_.Stop();
    stop_timer_.Stop();
    servers_timer_.Stop();
    if (!result_.ok()) return result_;
    return std::move(warnings_);
  }

 private:
  StoreOptions Wire(StoreOptions options) {
    options.locks.token_keep = kProbeLife;
    options.locks.queue_slot = kProbeLife;
    // Else a server that is new would grant the probe nothing, and a missing right stay hidden.
    options.locks.hold_off = {};
    if (options.quorum_is_new && options.quorum_check == StoreOptions::QuorumCheck::kAny) {
      options.quorum_check = StoreOptions::QuorumCheck::kNew;
    }
    options.on_node_status = nullptr;
    options.on_wait = nullptr;
    options.on_replicated = nullptr;
    options.cluster_events = {};
    options.quorum_events = {};
    options.on_problem = [this](const absl::Status& why) {
      last_problem_ = why;
      if (!absl::IsUnavailable(why)) return End(why);
      if (watch_.on_problem) watch_.on_problem(why);
    };
    options.on_warning = [this](const std::string& warning) { Warn(warning); };
    return options;
  }

  void Warn(const std::string& warning) {
    std::string line = Cat(url_, ": ", warning);
    if (std::find(warnings_.begin(), warnings_.end(), line) == warnings_.end()) warnings_.push_back(std::move(line));
  }

  void OnStoreInput(core::Input&& input) override {
    if (std::holds_alternative<core::StoreUp>(input)) {
      next_ = 0;
      return SendNext();
    }
    if (const auto* reply = std::get_if<core::StoreReply>(&input)) OnReply(*reply);
  }

  void SendNext() {
    if (next_ == probe_.size()) return AwaitServers();
    core::StoreCommand command = probe_[next_++];
    if (auto* renew = std::get_if<core::StoreRenew>(&command)) renew->items.back().token = token_;
    store_->Submit(std::move(command));
    store_->Flush();
  }

  void AwaitServers() {
    if (!needs_all_servers_ || store_->AllServersAreUp()) return End(absl::OkStatus());
    servers_timer_.Start(kAskServers);
  }

  void OnReply(const core::StoreReply& reply) {
    std::string trouble;
    if (const auto* unknown = std::get_if<core::StoreUnknown>(&reply.outcome)) trouble = unknown->cause;
    if (const auto* failed = std::get_if<core::StoreFailed>(&reply.outcome)) {
      // A full store can still renew and release, so the daemon may start.
      if (failed->kind == core::FailureKind::kFull) {
        Warn(Cat("the store is full: ", failed->cause));
        return End(absl::OkStatus());
      }
      trouble = failed->cause;
    }
    if (const auto* granted = std::get_if<core::AcquireGranted>(&reply.outcome)) token_ = granted->token;
    if (trouble.empty()) return SendNext();
    const std::string message = Cat(
        url_, wait_replicas_ > 0 ? ": a script fails, or --wait-replicas asks for too much: " : ": a script fails: ",
        trouble);
    if (Contains(trouble, "can't run this command") || Contains(trouble, "can't access") ||
        Contains(trouble, "NOPERM") || Contains(trouble, "ACL failure")) {
      return End(absl::PermissionDeniedError(
          Cat(message, "; grant the rights that lua/README.md lists, for the keys and channels of the prefix")));
    }
    // Perhaps only the connection broke; the next StoreUp starts over.
    last_problem_ = absl::UnavailableError(message);
  }

  void End(absl::Status result) {
    if (std::exchange(ended_, true)) return;
    result_ = std::move(result);
    uv_stop(loop_);
  }

  uv_loop_t* const loop_;
  const CheckWatch watch_;
  const std::string url_;
  const int wait_replicas_;
  const bool needs_all_servers_;
  const std::vector<core::StoreCommand> probe_;
  size_t next_ = 0;
  uint64_t token_ = 0;  // of the probe's grant
  bool ended_ = false;
  absl::Status result_;
  absl::Status last_problem_;
  std::vector<std::string> warnings_;
  const std::unique_ptr<Store> store_;
  UvTimer timer_;
  UvTimer stop_timer_;
  UvTimer servers_timer_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckStore(const MakeStore& make, StoreOptions options, core::Duration timeout,
                                                    CheckWatch watch) {
  auto* loop = new uv_loop_t;
  uv_loop_init(loop);
  auto result = Checker(loop, make, std::move(options), timeout, std::move(watch)).Run();
  // getaddrinfo cannot be cancelled; after 100 ms we leak this loop rather than block start-up.
  for (int turn = 0; turn < kClosingTurns && uv_loop_alive(loop) != 0; ++turn) {
    uv_run(loop, UV_RUN_NOWAIT);
    if (uv_loop_alive(loop) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (uv_loop_close(loop) == 0) delete loop;
  return result;
}

}  // namespace distlock::store
