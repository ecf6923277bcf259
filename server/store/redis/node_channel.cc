// SPDX-License-Identifier: Apache-2.0
#include "store/redis/node_channel.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::Duration kFirstBindDelay = std::chrono::milliseconds(50);
constexpr core::Duration kLongestBindDelay = std::chrono::seconds(2);
// A notice that is older than this by what is known of the server's clock tells of a clock that was set, or was slow.
constexpr core::Duration kPlausibleNotice = std::chrono::milliseconds(250);

}  // namespace

NodeChannel::NodeChannel(const Network& network, const std::optional<ServerAddress>& address, NodeContext& context,
                         NodeClock& clock, NodeReport& report)
    : context_(context),
      clock_(clock),
      report_(report),
      channel_(network, MakeLinkOptions(address, context.options, 1), context.codec.grant_channel(), this),
      bind_timer_(context.timers->Make([this] { Rebind(); })),
      trust_timer_(context.timers->Make([this] { Trust(); })) {}

void NodeChannel::Stop() {
  bind_timer_->Stop();
  trust_timer_->Stop();
  channel_.Stop();
}

void NodeChannel::OnServer(const Prepared& prepared, bool another) {
  is_younger_ = false;
  if (another) AwaitOthers();
  if (!prepared.no_shard_channels.empty()) DoWithoutShardChannels(prepared.no_shard_channels);
  if (bound() && prepared.listeners == 0) channel_.Renew("the server does not know the subscription");
  Bind();
}

void NodeChannel::UseShard() {
  const bool sharded = context_.HasShardChannel();
  context_.codec.ListenAt(sharded ? context_.shard->tag : "");
  channel_.Listen(context_.codec.grant_channel(), sharded);
}

void NodeChannel::DoWithoutShardChannels(const std::string& why) {
  if (!context_.shard || !std::exchange(context_.shard_channels, false)) return;
  UseShard();
  Trust();
  if (!context_.options.on_warning) return;
  context_.options.on_warning(
      Cat("hand-offs go through PUBLISH to all nodes, because scripts cannot send to a shard's channel (", why,
          "): each costs every node some time, and waiters of a broker that has died may hold up a lock for as long as "
          "their ttl; Redis 7.0, Valkey 7.2 and newer have such channels"));
}

void NodeChannel::OnChannelUp() {
  is_younger_ = true;
  if (!std::exchange(was_subscribed_, true)) return context_.link.Start();
  Bind();
  if (context_.was_up) context_.Tell(core::ChannelUp{});
}

void NodeChannel::OnChannelDown(const absl::Status& why) {
  context_.codec.TrustPublish(false);
  report_.OnChannelProblem(why);
  // Until the first subscription there is no link, and the channel's trouble is the node's.
  if (!was_subscribed_) context_.TellDown(Cat(context_.place, why.message()));
}

void NodeChannel::Trust() {
  const core::Duration left = trust_from_ - context_.timers->Now();
  // In a Cluster PUBLISH counts only those who listen at this node.
  const bool counts_all = !context_.shard || context_.HasShardChannel();
  context_.codec.TrustPublish(bound() && left <= core::Duration::zero() && counts_all);
  if (left > core::Duration::zero()) trust_timer_->Start(left);
}

void NodeChannel::Bind() {
  Trust();
  bind_timer_->Stop();
  if (bound()) {
    bind_failures_ = 0;
    report_.OnBound();
  } else if (context_.up && channel_.subscribed()) {
    const int failures = bind_failures_++;
    bind_timer_->Start(failures == 0 ? core::Duration::zero()
                                     : std::min(kLongestBindDelay, kFirstBindDelay * (1 << std::min(failures, 6))));
  }
}

void NodeChannel::Rebind() {
  if (!context_.up || !channel_.subscribed() || bound()) return;
  // The younger connection shows where the address leads now. A replica is never the place for commands.
  if (is_younger_ && channel_.server().role == "master") {
    return context_.leave_server("the address leads to another server");
  }
  channel_.Renew("commands go to another server");
}

void NodeChannel::OnChannelMessage(std::string_view payload) {
  auto notice = Codec::DecodeNotice(payload);
  if (!notice) return;
  if (auto* grant = std::get_if<core::GrantNotice>(&*notice)) {
    const core::Instant now = context_.timers->Now();
    grant->made = context_.clock.Earliest(grant->since, now);
    // By a clock that was set, a grant may look older than its ttl: first the clock, then, by its step, the waiters.
    const bool is_ahead = context_.clock.Ahead(grant->since, now) > ServerClock::kTolerance;
    if (context_.up && (is_ahead || now - grant->made > kPlausibleNotice)) clock_.Ask();
    // Another broker's connection made this grant, so no WAIT of ours covers it: our own look at the lock does.
    if (context_.options.wait_replicas > 0) *grant = {.name = std::move(grant->name)};
  }
  context_.Tell(*std::move(notice));
}

}  // namespace distlock::store
