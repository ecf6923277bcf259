// SPDX-License-Identifier: Apache-2.0
#include "store/redis/server_node.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "store/redis/error_class.h"
#include "store/redis/reply_parts.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::Duration kFirstBindDelay = std::chrono::milliseconds(50);
constexpr core::Duration kLongestBindDelay = std::chrono::seconds(2);
constexpr core::Duration kCountKeysEach = std::chrono::seconds(15);
// A notice that is older than this by what is known of the server's clock tells of a clock that was set, or was slow.
constexpr core::Duration kPlausibleNotice = std::chrono::milliseconds(250);

std::string GuardText(const Census& census) {
  if (!census.obeys()) return "";
  return Cat(GuardName(census.guard()), census.waits_for_replicas() ? ", as it has or had replicas" : "");
}

LinkOptions MakeLinkOptions(const ServerAddress& address, const StoreOptions& options, uint64_t salt) {
  LinkOptions link{.address = address,
                   .credentials = options.credentials,
                   .db = options.url.db,
                   .connect_timeout = options.connect_timeout,
                   .subscriber = false,
                   .seed = options.seed * 2 + salt};
  if (!link.credentials) {
    link.credentials = [of_url = Credentials{options.url.user, options.url.password}] { return of_url; };
  }
  return link;
}

}  // namespace

ServerNode::ServerNode(const Network& network, const std::optional<ServerAddress>& address, StoreOptions options,
                       Owner* owner, const std::vector<const lua::ScriptSource*>& more_scripts,
                       std::shared_ptr<AssertedTtls> ttls)
    : options_(std::move(options)),
      timers_(network.timers),
      owner_(owner),
      scripts_to_load_(AllScripts()),
      has_address_(address.has_value()),
      clock_(options_.locks.clock_drift_ppm),
      clock_rate_(options_.locks.clock_drift_ppm),
      codec_(options_.locks, clock_),
      link_(network, MakeLinkOptions(address.value_or(ServerAddress{}), options_, 0), this),
      scripts_(&link_),
      batch_(&codec_, &scripts_, [this](const SentCommand& sent, const Answer& answer) { OnAnswer(sent, answer); }),
      channel_(network, MakeLinkOptions(address.value_or(ServerAddress{}), options_, 1), codec_.grant_channel(), this),
      queries_(network.timers),
      confirmation_(&link_, *network.timers, options_, [this](core::StoreReply&& reply) { Tell(std::move(reply)); }),
      schema_(&link_, &scripts_, network.timers, options_, this),
      census_(&link_, &scripts_, network.timers, options_, std::move(ttls), this),
      bind_timer_(network.timers->Make([this] { Rebind(); })),
      clock_timer_(network.timers->Make([this] { AskTimeAfterSilence(); })),
      count_timer_(network.timers->Make([this] { CountKeys(); })),
      trust_timer_(network.timers->Make([this] { Trust(); })) {
  scripts_to_load_.insert(scripts_to_load_.end(), more_scripts.begin(), more_scripts.end());
  if (schema_.on()) scripts_to_load_.push_back(&lua::kSchema);
  if (census_.on()) codec_.Obey(&census_.census(), timers_.get());
  if (confirmation_.on()) {
    census_.AskReplicasBy([this](std::function<void(int)> done) { confirmation_.Ask(std::move(done)); });
  }
}

ServerNode::~ServerNode() { Stop(); }

void ServerNode::Start() {
  started_ = true;
  // First the channel, so that no grant can be handed to this broker before it listens.
  if (has_address_) channel_.Start();
}

void ServerNode::MoveTo(const ServerAddress& address) {
  const std::string why = Cat("the primary is at ", address.Text(), " now");
  const bool first = !std::exchange(has_address_, true);
  place_ = Cat("the primary at ", address.Text(), ": ");
  up_ = false;
  down_cause_ = why;
  doubt_.OnMoved();
  prepared_.reset();
  schema_.Stop();
  census_.Stop();
  link_.MoveTo(address, absl::UnavailableError(why));
  channel_.MoveTo(address, why);
  if (first && started_) channel_.Start();
}

void ServerNode::Hurry() {
  link_.Hurry();
  channel_.Hurry();
}

void ServerNode::Stop() {
  started_ = false;
  up_ = false;
  bind_timer_->Stop();
  clock_timer_->Stop();
  count_timer_->Stop();
  trust_timer_->Stop();
  schema_.Stop();
  census_.Stop();
  confirmation_.Stop();
  channel_.Stop();
  link_.Stop();
  queries_.RefuseAll(absl::CancelledError("the broker is stopping"));
}

void ServerNode::Tell(core::Input&& input) {
  if (started_) owner_->OnNodeInput(std::move(input));
}

void ServerNode::TellDown(const std::string& cause) {
  down_cause_ = cause;
  if (std::exchange(told_cause_, cause) != cause) Tell(core::StoreDown{cause});
}

// ---- The two connections ----

void ServerNode::BecomeUp(const Prepared& prepared) {
  link_.MarkReady();
  confirmation_.OnServer();
  up_ = true;
  channel_is_younger_ = false;
  const bool another = !identity_.run_id.empty() && identity_ != prepared.identity;
  if (another) {
    ++primary_changes_;
    trust_from_ = timers_->Now() + kOthersCome;
  }
  identity_ = prepared.identity;
  if (another) clock_rate_.Forget();
  refuses_all_ = false;
  suspecting_ = false;
  if (!prepared.no_shard_channels.empty()) DoWithoutShardChannels(prepared.no_shard_channels);
  told_cause_.clear();
  last_problem_.clear();
  // All of them are about a restart that forgets locks, and a hold-off is the remedy.
  if (options_.on_warning && !census_.census().obeys()) {
    for (const auto& warning : prepared.warnings) options_.on_warning(warning);
  }
  if (bound() && prepared.listeners == 0) channel_.Renew("the server does not know the subscription");
  Bind();
  const bool first = !std::exchange(first_up_done_, true);
  clock_timer_->Start(kAskTimeAfter);
  CountKeys();
  // Known to those who hear that it is up; that it was set, only afterwards.
  const auto step = clock_.Learn(prepared.sent, prepared.received, prepared.time);
  time_learned_ = prepared.received;
  Tell(core::StoreUp{.renew_all = another});
  if (step) TellClockStep(*step);
  if (first) Tell(core::ChannelUp{});
  TellStatus();
}

void ServerNode::OnHoldOffChanged() { Tell(core::ChannelUp{}); }

void ServerNode::OnCensusRefused(const std::string& cause) {
  doubt_.OnRefused(cause, timers_->Now());
  ReportRefusal({core::FailureKind::kUnavailable, cause});
}

void ServerNode::OnCensusWarning(const std::string& warning) {
  if (options_.on_warning) options_.on_warning(warning);
}

void ServerNode::OnReplicated() {
  if (options_.on_replicated) options_.on_replicated();
}

void ServerNode::TellStatus() {
  if (!options_.on_node_status) return;
  const Census& census = census_.census();
  NodeStatus status{.address = options_.url.address.Text(),
                    .state = !up_                 ? NodeStatus::State::kDown
                             : census.holds_off() ? NodeStatus::State::kHeldOff
                                                  : NodeStatus::State::kUp,
                    .problem = up_ ? "" : down_cause_,
                    .refusal = !up_           ? ""
                               : census_.on() ? census_.refusal()
                                              : schema_.refusal(),
                    .role = identity_.role,
                    .version = identity_.version,
                    .identity = identity_.Short(),
                    .hold_off_left = core::Duration::zero(),
                    .guard = GuardText(census),
                    .replicas = census_.replicas(),
                    .epoch = 0,
                    .clock_slew_ppm = told_slew_ppm_,
                    .keys = keys_,
                    .primary_changes = primary_changes_};
  const core::Duration left = HoldOffLeft();
  status.hold_off_left = left == core::Duration::max() ? std::nullopt : std::optional(left);
  options_.on_node_status(status);
}

// For operators: what names that are never used again leave behind.
void ServerNode::CountKeys() {
  if (!options_.on_node_status || !up_) return;
  link_.Send(MakeCommand({"INFO", "keyspace"}), [this](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || IsError(*answer.reply)) return;
    keys_ = ServerInfo(Text(*answer.reply)).KeysIn(options_.url.db);
    TellStatus();
  });
  link_.Flush();
  count_timer_->Start(kCountKeysEach);
}

void ServerNode::OnLinkDown(const absl::Status& why) {
  up_ = false;
  prepared_.reset();
  schema_.Stop();
  census_.Stop();
  codec_.TrustPublish(false);
  ReportProblem(last_problem_, "", why);
  TellDown(Cat(place_, why.message()));
  TellStatus();
}

void ServerNode::LeaveServer(const std::string& cause) {
  up_ = false;
  schema_.Stop();
  census_.Stop();
  down_cause_ = cause;
  link_.Reconnect(absl::UnavailableError(cause));
}

void ServerNode::OnChannelUp() {
  channel_is_younger_ = true;
  if (!std::exchange(channel_seen_, true)) return link_.Start();
  Bind();
  if (first_up_done_) Tell(core::ChannelUp{});
}

void ServerNode::OnChannelDown(const absl::Status& why) {
  codec_.TrustPublish(false);
  ReportProblem(last_channel_problem_, "hand-off channel: ", why);
  // Until the first subscription there is no link, and the channel's trouble is the node's.
  if (!channel_seen_) TellDown(Cat(place_, why.message()));
}

void ServerNode::Trust() {
  const core::Duration left = trust_from_ - timers_->Now();
  // In a Cluster PUBLISH counts only those who listen at this node.
  codec_.TrustPublish(bound() && left <= core::Duration::zero() && (!shard_ || HasShardChannel()));
  if (left > core::Duration::zero()) trust_timer_->Start(left);
}

void ServerNode::Bind() {
  Trust();
  bind_timer_->Stop();
  if (bound()) {
    bind_failures_ = 0;
    last_channel_problem_.clear();
  } else if (up_ && channel_.subscribed()) {
    const int failures = bind_failures_++;
    bind_timer_->Start(failures == 0 ? core::Duration::zero()
                                     : std::min(kLongestBindDelay, kFirstBindDelay * (1 << std::min(failures, 6))));
  }
}

void ServerNode::Rebind() {
  if (!up_ || !channel_.subscribed() || bound()) return;
  // The younger connection shows where the address leads now. A replica is never the place for commands.
  if (channel_is_younger_ && channel_.server().role == "master")
    return LeaveServer("the address leads to another server");
  channel_.Renew("commands go to another server");
}

void ServerNode::OnChannelMessage(std::string_view payload) {
  auto notice = Codec::DecodeNotice(payload);
  if (!notice) return;
  if (auto* grant = std::get_if<core::GrantNotice>(&*notice)) {
    const core::Instant now = timers_->Now();
    grant->made = clock_.Earliest(grant->since, now);
    // By a clock that was set, a grant may look older than its ttl: first the clock, then, by its step, the waiters.
    const bool is_ahead = clock_.Ahead(grant->since, now) > ServerClock::kTolerance;
    if (up_ && (is_ahead || now - grant->made > kPlausibleNotice)) AskTime();
    // Another broker's connection made this grant, so no WAIT of ours covers it: our own look at the lock does.
    if (confirmation_.on()) *grant = {.name = std::move(grant->name)};
  }
  Tell(*std::move(notice));
}

// ---- Problems, for the log ----

// A server may be up and refuse every command: without this line only callers would know why.
void ServerNode::ReportRefusal(const core::StoreFailed& failed) {
  constexpr core::Duration kAgain = std::chrono::minutes(1);
  if (failed.kind != core::FailureKind::kUnavailable && failed.kind != core::FailureKind::kFull) return;
  // By time and not by text: the text names the script, so it differs for each verb.
  const core::Instant now = timers_->Now();
  if (refusal_at_ && now - *refusal_at_ < kAgain) return;
  refusal_at_ = now;
  if (!options_.on_problem) return;
  options_.on_problem(absl::UnavailableError(Cat(options_.url.Masked(), ": ", place_, "refuses: ", failed.cause)));
}

void ServerNode::ReportProblem(std::string& last, std::string_view who, const absl::Status& why) {
  std::string text = Cat(options_.url.Masked(), ": ", place_, who, why.message());
  if (std::exchange(last, text) == text) return;
  if (options_.on_problem) options_.on_problem(absl::Status(why.code(), text));
}

// ---- Commands ----

std::string ServerNode::RefusalOf(const core::StoreCommand& command) const {
  if (!up_) return down_cause_;
  return doubt_.Refusal().empty() ? confirmation_.Refusal(command) : doubt_.Refusal();
}

void ServerNode::Submit(core::StoreCommand&& command, uint64_t least_token) {
  const std::string refusal = RefusalOf(command);
  if (up_ && refusal.empty()) {
    HearTtl(command);
    confirmation_.OnSent(command);
    if (least_token == 0) return batch_.Add(std::move(command));
    batch_.Send();
    Encoded encoded = codec_.Encode(command, least_token);
    return scripts_.Call(*encoded.script, std::move(encoded.bytes),
                         [this, sent = encoded.sent](const Answer& answer) { OnAnswer(sent, answer); });
  }
  Refuse(command, refusal);
}

void ServerNode::HearTtl(const core::StoreCommand& command) {
  if (const auto* acquire = std::get_if<core::StoreAcquire>(&command)) return census_.OnTtl(acquire->ttl);
  if (const auto* all = std::get_if<core::StoreAcquireAll>(&command)) {
    for (const core::StoreAcquire& item : all->items) census_.OnTtl(item.ttl);
  }
}

// A renewal that does nothing counts for nothing: whoever makes up a lease may ask for one, with any ttl. The lease's
// own grant was heard, and its holder believes in no more before this.
void ServerNode::HearRenewed(const SentCommand& sent, const core::StoreReply& reply) {
  const auto* const done = std::get_if<core::RenewDoneBatch>(&reply.outcome);
  const bool may_have_run = std::holds_alternative<core::StoreUnknown>(reply.outcome);
  for (size_t i = 0; i < sent.ttls.size(); ++i) {
    const bool has_run = done != nullptr && done->results[i] == core::RenewResult::kRenewed;
    if (has_run || may_have_run) census_.OnTtl(sent.ttls[i]);
  }
}

void ServerNode::Refuse(const core::StoreCommand& command, std::string_view cause) {
  link_.Reject([this, sent = codec_.Encode(command).sent](const Answer& answer) { OnAnswer(sent, answer); }, cause);
}

void ServerNode::Call(const lua::ScriptSource& script, std::string call, CommandSender::Done done) {
  if (!up_) return link_.Reject(std::move(done), down_cause_);
  batch_.Send();
  scripts_.Call(script, std::move(call), [this, done = std::move(done)](const Answer& answer) mutable {
    if (answer.kind == Answer::Kind::kReply) {
      const uint64_t time = Number(ReplyArray(*answer.reply), 1).value_or(0);
      if (time > 0) LearnTime(answer.sent, answer.received, AsStoreTime(time));
      if (IsError(*answer.reply) && NeedsNewConnection(Text(*answer.reply))) {
        LeaveServer(std::string(Text(*answer.reply)));
      }
    }
    done(answer);
  });
}

void ServerNode::Flush() {
  batch_.Send();
  confirmation_.Flush();
  link_.Flush();
}

void ServerNode::OnAnswer(const SentCommand& sent, const Answer& answer) {
  const bool refused = answer.reply != nullptr && IsError(*answer.reply);
  const std::string_view error = refused ? Text(*answer.reply) : "";
  if (refused) doubt_.OnRefused(error, timers_->Now());
  if (refused && shard_ && IsRedirect(error) && owner_->OnNodeRedirect(sent.op, error)) return;
  if (refused && shard_ && IsNonLocalKey(error)) {
    Suspect();
    // The script's first call is refused then, so nothing has run.
    if (refuses_all_) {
      const core::StoreFailed failed{core::FailureKind::kUnavailable, std::string(kRefusesAllScripts)};
      return confirmation_.OnAnswer({sent.op, failed});
    }
  }
  Decoded decoded = codec_.Decode(sent, answer);
  if (decoded.time.us > 0) LearnTime(answer.sent, answer.received, decoded.time);
  if (!decoded.reconnect.empty()) LeaveServer(decoded.reconnect);
  HearRenewed(sent, decoded.reply);
  if (const auto* failed = std::get_if<core::StoreFailed>(&decoded.reply.outcome)) ReportRefusal(*failed);
  confirmation_.OnAnswer(std::move(decoded.reply));
}

}  // namespace distlock::store
