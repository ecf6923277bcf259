// SPDX-License-Identifier: Apache-2.0
//
// One Redis or Valkey server with one life: the link that takes commands, who the server is, its scripts, and the
// channel on which it tells this broker of hand-offs. A topology is made of these; which server is the right one is the
// topology's to decide.
//
// The channel must belong to the server that takes the commands: both connections read the server's identity. Only
// while the two are the same does the node let scripts trust what PUBLISH counts; otherwise it makes one of the
// connections anew.
//
// Thread: the loop's. StoreUp comes once the link is logged in, the server found fit and all scripts loaded; the first
// one also waits for the channel. From then on StoreDown tells of the link alone, and ChannelUp of each new
// subscription. StoreDown comes before the answers to pending commands, and again when the cause changes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "store/redis/census_round.h"
#include "store/redis/clock_rate.h"
#include "store/redis/codec.h"
#include "store/redis/doubt.h"
#include "store/redis/link.h"
#include "store/redis/lock_listing.h"
#include "store/redis/notice_channel.h"
#include "store/redis/pending_queries.h"
#include "store/redis/preparation.h"
#include "store/redis/replica_confirmation.h"
#include "store/redis/schema_mark.h"
#include "store/redis/script_batch.h"
#include "store/redis/script_caller.h"
#include "store/redis/server_clock.h"
#include "store/redis/server_identity.h"
#include "store/redis/transport.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

class ServerNode : private Link::Owner,
                   private NoticeChannel::Owner,
                   private CensusRound::Owner,
                   private SchemaMark::Owner {
 public:
  // Outlives the node. Gets the inputs of the core, as StoreListener does: none from within Submit, none after Stop.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnNodeInput(core::Input&& input) = 0;

    // Of a Cluster's node only. The server has not run the command `op`, and says so by `error`: MOVED, ASK, TRYAGAIN
    // or CLUSTERDOWN. True: the owner answers for it from now on; it gets no StoreReply.
    virtual bool OnNodeRedirect(core::OpId /*op*/, std::string_view /*error*/) { return false; }
    // Slots have left the node. `error`: its MOVED of one of them; "": it did not say where they are.
    virtual void OnNodeMoved(const std::string& /*error*/) {}
  };

  // Where the node's own keys and channel are in a Cluster.
  struct Shard {
    std::string tag;        // of the channel and the census: a slot of the node; "": it has none
    std::string other_tag;  // of another slot of it, if it has more than one
    bool operator==(const Shard&) const = default;
  };

  // The server at `address`; all else as the options say. Without an address the node waits for MoveTo.
  // `more_scripts`: of Call; they live for as long as the process. `ttls`: what all nodes of the store have heard.
  ServerNode(const Network& network, const std::optional<ServerAddress>& address, StoreOptions options, Owner* owner,
             const std::vector<const lua::ScriptSource*>& more_scripts = {},
             std::shared_ptr<AssertedTtls> ttls = nullptr);
  ~ServerNode() override;

  // As the methods of Store.
  void Start();
  void Submit(core::StoreCommand&& command, uint64_t least_token = 0);  // least_token as of Codec::Encode
  void Flush();
  // One of more_scripts, in an encoding of the caller's. `done` runs once, when Submit would have answered.
  void Call(const lua::ScriptSource& script, std::string call, CommandSender::Done done);
  // The connection is of no use any more.
  void LeaveServer(const std::string& cause);
  // `redirected`, if set, hears of a redirect; when it returns true, `done` is not called.
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done,
               std::function<bool(std::string_view error)> redirected = nullptr);
  void List(const std::string& escaped_namespace, const std::string& escaped_key_prefix, uint32_t page_size,
            const std::string& page_token, core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done);
  void Stop();

  // The server is at `address` now. Both connections to the old one are dropped at once, even if they work: what was
  // sent there and not answered is unknown, the rest not sent.
  void MoveTo(const ServerAddress& address);
  // The node has these slots of a Cluster now. Before Start, and again when they have changed.
  void Place(const Shard& shard);
  // Other brokers may not listen here yet, because the node has just got its first slots.
  void AwaitOthers() { trust_from_ = timers_->Now() + kOthersCome; }
  // As Submit, but as a call of its own, never together with others; and behind ASKING if `asking`.
  void SubmitAlone(const core::StoreCommand& command, bool asking);
  // Where other commands than the scripts' may be sent. REQUIRES: up().
  CommandSender& sender() { return link_; }
  // The connection is of no use, for this cause: another one is made.
  void Leave(const std::string& cause) { LeaveServer(cause); }

  // The server may be ready now: a connection that waits for its next attempt makes it at once.
  void Hurry();

  // The link is ready for commands.
  bool up() const { return up_; }
  // While up: the server that takes the commands.
  const ServerIdentity& identity() const { return identity_; }
  const ServerClock& clock() const { return clock_; }
  // Scripts may take a broker for unreachable when PUBLISH finds no listener.
  bool trusts_publish() const { return codec_.trusts_publish(); }
  // Whether it may have forgotten locks whose holders still believe.
  bool holds_off() const { return census_.census().holds_off(); }
  // As Census::Left.
  core::Duration HoldOffLeft() const { return census_.census().Left(clock_.ShownBy(timers_->Now())); }
  // As core::LockView::held_off.
  core::Duration HeldOffFor() const {
    const core::Duration left = HoldOffLeft();
    return left == core::Duration::max() ? kLookAtOpenEnd : left;
  }
  // So many servers there are, by those who know: the census counts with it.
  void Servers(int count) { census_.Servers(count); }
  // They have named this server as the primary, when asked at `asked`.
  void Named(core::Instant asked) { doubt_.OnNamed(asked); }

 private:
  // Brokers that listened to the old primary come to the new one within this time.
  static constexpr core::Duration kOthersCome = std::chrono::seconds(2);
  // After so much silence the server is asked for its time: it must live, and its clock, which ends keys, may be set.
  static constexpr core::Duration kAskTimeAfter = std::chrono::seconds(1);

  void OnLinkConnected() override;
  void OnLinkDown(const absl::Status& why) override;
  void OnChannelUp() override;
  void OnChannelDown(const absl::Status& why) override;
  void OnChannelMessage(std::string_view payload) override;
  void OnChannelMoved(const std::string& error) override { owner_->OnNodeMoved(error); }
  void OnNoShardChannels() override { DoWithoutShardChannels("the server does not know SSUBSCRIBE"); }

  void OnCensusReady() override;
  void OnHoldOffChanged() override;
  void OnCensusTaken() override { TellStatus(); }
  void OnServerLeft(const std::string& cause) override { LeaveServer(cause); }
  void OnCensusRefused(const std::string& cause) override;
  void OnCensusWarning(const std::string& warning) override;
  void OnReplicated() override;

  void OnSchemaRead() override;
  void OnSchemaRefused(const absl::Status& why) override;

  void OnPrepared(const absl::StatusOr<Prepared>& prepared);
  // All is known of the server: commands can be sent.
  void BecomeUp(const Prepared& prepared);
  // Whether PUBLISH counts all who listen: not before the others have had the time to come to a new server, too.
  void Trust();
  void TellStatus();
  // Compares the servers of the two connections and makes one anew when they differ, later each time.
  void Bind();
  void Rebind();
  bool bound() const { return up_ && channel_.subscribed() && channel_.server() == identity_; }
  // Tells of a clock that was set.
  void LearnTime(core::Instant sent, core::Instant received, core::StoreTime time);
  void TellClockStep(core::Duration by);
  // Tells of a clock that runs faster or slower than it may, or does not any more.
  void TellClockSlew();
  void AskTimeAfterSilence();
  void AskTime();
  void CountKeys();
  void OnAnswer(const SentCommand& sent, const Answer& answer);
  // `last`: the problem that this connection reported last. Each has its own, so that two problems in turn are not new
  // each time.
  void ReportProblem(std::string& last, std::string_view who, const absl::Status& why);
  void ReportRefusal(const core::StoreFailed& failed);
  bool HasShardChannel() const { return shard_ && shard_channels_ && !shard_->tag.empty(); }
  // The channel and the codec use what Place has said.
  void UseShard();
  void DoWithoutShardChannels(const std::string& why);
  // A script was refused for a key that is not here. Finds out whether every script is.
  void Suspect();
  void TellDown(const std::string& cause);
  // Each tells the census the ttls of leases: HearTtl before the command that writes one is sent, HearRenewed when a
  // renewal is answered.
  void HearTtl(const core::StoreCommand& command);
  void HearRenewed(const SentCommand& sent, const core::StoreReply& reply);
  // Answers "not sent", later.
  // Why the command is not to be sent now; "": it is.
  std::string RefusalOf(const core::StoreCommand& command) const;
  void Refuse(const core::StoreCommand& command, std::string_view cause);
  void RefuseSoon(PendingQueries::Id id, absl::Status why);
  void RefuseIfReplica(PendingQueries::Id id);
  void Tell(core::Input&& input);

  // Const after construction.
  const StoreOptions options_;
  const std::shared_ptr<Timers> timers_;
  Owner* const owner_;
  std::vector<const lua::ScriptSource*> scripts_to_load_;

  bool started_ = false;      // and not stopped
  bool has_address_ = false;  // and so the channel has begun to connect, once started
  bool up_ = false;
  bool channel_seen_ = false;  // subscribed at least once
  bool first_up_done_ = false;
  std::optional<Prepared> prepared_;  // while the schema's mark or the census is awaited
  ServerIdentity identity_;
  uint64_t primary_changes_ = 0;
  std::optional<uint64_t> keys_;
  core::Instant trust_from_{};
  std::optional<Shard> shard_;       // of a Cluster's node
  bool shard_channels_ = true;       // the server can have them
  bool refuses_all_ = false;         // the server refuses every script: kRefusesAllScripts
  bool suspecting_ = false;          // that is being found out
  bool channel_is_younger_ = false;  // than the link's connection
  int bind_failures_ = 0;            // since the two connections last had the same server
  std::string place_;                // for people, since MoveTo: where the server is, which the URL does not say
  std::string down_cause_ = "not connected yet";
  std::string told_cause_;    // of the last StoreDown, "" since StoreUp
  std::string last_problem_;  // of the link
  std::string last_channel_problem_;
  std::optional<core::Instant> refusal_at_;  // when one was reported
  ServerClock clock_;
  ClockRate clock_rate_;
  int64_t told_slew_ppm_ = 0;
  std::optional<core::Instant> slew_at_;  // when one was reported
  core::Instant time_learned_{};
  Codec codec_;
  Link link_;
  ScriptCaller scripts_;
  ScriptBatch batch_;
  NoticeChannel channel_;
  PendingQueries queries_;
  Doubt doubt_;
  ReplicaConfirmation confirmation_;
  SchemaMark schema_;
  CensusRound census_;
  const std::unique_ptr<Timer> bind_timer_;
  const std::unique_ptr<Timer> clock_timer_;
  const std::unique_ptr<Timer> count_timer_;
  const std::unique_ptr<Timer> trust_timer_;
};

}  // namespace distlock::store
