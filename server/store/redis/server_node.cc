// SPDX-License-Identifier: Apache-2.0
#include "store/redis/server_node.h"

#include <utility>

#include "store/text.h"

namespace distlock::store {

ServerNode::ServerNode(const Network& network, const std::optional<ServerAddress>& address, StoreOptions options,
                       Owner* owner, const std::vector<const lua::ScriptSource*>& more_scripts,
                       std::shared_ptr<AssertedTtls> ttls)
    : has_address_(address.has_value()),
      context_(network, address, std::move(options), owner, this,
               [this](const std::string& cause) { LeaveServer(cause); }),
      clock_(context_, this),
      checks_(context_, more_scripts, std::move(ttls), this),
      report_(context_, checks_, clock_),
      channel_(network, address, context_, clock_, report_),
      commands_(context_, checks_, clock_, report_),
      queries_(context_, checks_) {}

ServerNode::~ServerNode() { Stop(); }

void ServerNode::Start() {
  context_.started = true;
  // First the channel, so that no grant can be handed to this broker before it listens.
  if (has_address_) channel_.Start();
}

void ServerNode::Stop() {
  context_.started = false;
  context_.up = false;
  clock_.Stop();
  report_.Stop();
  checks_.Stop();
  commands_.Stop();
  channel_.Stop();
  context_.link.Stop();
  queries_.Stop();
}

void ServerNode::MoveTo(const ServerAddress& address) {
  const std::string why = Cat("the primary is at ", address.Text(), " now");
  const bool first = !std::exchange(has_address_, true);
  context_.place = Cat("the primary at ", address.Text(), ": ");
  context_.up = false;
  context_.down_cause = why;
  commands_.OnMoved();
  checks_.Stop();
  context_.link.MoveTo(address, absl::UnavailableError(why));
  channel_.MoveTo(address, why);
  if (first && context_.started) channel_.Start();
}

void ServerNode::Place(const Shard& shard) {
  if (context_.shard == shard) return;
  const bool other_channel = !context_.shard || context_.shard->tag != shard.tag;
  context_.shard = shard;
  if (!other_channel) return;
  checks_.MarkAt(shard.tag);
  channel_.UseShard();
  if (!context_.started) return;
  channel_.AwaitOthers();
  channel_.Trust();
}

void ServerNode::LeaveServer(const std::string& cause) {
  context_.up = false;
  checks_.Stop();
  context_.down_cause = cause;
  context_.link.Reconnect(absl::UnavailableError(cause));
}

void ServerNode::Hurry() {
  context_.link.Hurry();
  channel_.Hurry();
}

void ServerNode::OnLinkDown(const absl::Status& why) {
  context_.up = false;
  checks_.Stop();
  channel_.OnLinkDown();
  report_.OnLinkProblem(why);
  context_.TellDown(Cat(context_.place, why.message()));
  report_.TellStatus();
}

void ServerNode::OnServerUnfit(const absl::Status& why) {
  context_.up = false;
  checks_.Stop();
  context_.down_cause = std::string(why.message());
  context_.link.Reconnect(why);
}

void ServerNode::OnServerFit(const Prepared& prepared) {
  const bool another = !context_.identity.run_id.empty() && context_.identity != prepared.identity;
  context_.link.MarkReady();
  context_.up = true;
  context_.identity = prepared.identity;
  context_.told_cause.clear();
  commands_.OnServer();
  // All of them are about a restart that forgets locks, and a hold-off is the remedy.
  if (context_.options.on_warning && !checks_.census().obeys()) {
    for (const auto& warning : prepared.warnings) context_.options.on_warning(warning);
  }
  channel_.OnServer(prepared, another);
  report_.OnServer(another);
  const bool first = !std::exchange(context_.was_up, true);
  // Known to those who hear that it is up; that it was set, only afterwards.
  const auto step = clock_.OnServer(prepared, another);
  context_.Tell(core::StoreUp{.renew_all = another});
  if (step) OnClockStep(*step);
  if (first) context_.Tell(core::ChannelUp{});
  report_.TellStatus();
}

void ServerNode::OnClockStep(core::Duration by) {
  checks_.OnClockStep(by);
  context_.Tell(core::StoreClockStep{by});
}

}  // namespace distlock::store
