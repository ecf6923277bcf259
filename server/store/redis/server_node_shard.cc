// SPDX-License-Identifier: Apache-2.0
//
// What a node does that is one of several of a Cluster.
#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/server_node.h"
#include "store/text.h"

namespace distlock::store {

void ServerNode::Place(const Shard& shard) {
  if (shard_ == shard) return;
  const bool other_channel = !shard_ || shard_->tag != shard.tag;
  shard_ = shard;
  if (!other_channel) return;
  schema_.MarkAt(codec_.keys().Schema(shard.tag));
  census_.MarkAt(codec_.keys().Marker(shard.tag), codec_.keys().Heartbeat(shard.tag));
  UseShard();
  if (!started_) return;
  AwaitOthers();
  Trust();
}

void ServerNode::UseShard() {
  codec_.ListenAt(HasShardChannel() ? shard_->tag : "");
  channel_.Listen(codec_.grant_channel(), HasShardChannel());
}

void ServerNode::DoWithoutShardChannels(const std::string& why) {
  if (!shard_ || !std::exchange(shard_channels_, false)) return;
  UseShard();
  Trust();
  if (!options_.on_warning) return;
  options_.on_warning(
      Cat("hand-offs go through PUBLISH to all nodes, because scripts cannot send to a shard's channel (", why,
          "): each costs every node some time, and waiters of a broker that has died may hold up a lock for as long as "
          "their ttl; Redis 7.0, Valkey 7.2 and newer have such channels"));
}

void ServerNode::SubmitAlone(const core::StoreCommand& command, bool asking) {
  const std::string refusal = RefusalOf(command);
  if (!up_ || !refusal.empty()) return Refuse(command, refusal);
  HearTtl(command);
  confirmation_.OnSent(command);
  if (asking) link_.Send(MakeCommand({"ASKING"}), [](const Answer&) {});
  batch_.SendAlone(command);
}

void ServerNode::Suspect() {
  if (!up_ || std::exchange(suspecting_, true)) return;
  const std::string key = codec_.keys().Marker(shard_->tag);
  scripts_.Call(lua::kProbe, MakeCommand({"EVALSHA", lua::kProbe.sha1, "1", key, codec_.grant_channel()}),
                [this](const Answer& answer) {
                  suspecting_ = false;
                  if (answer.kind != Answer::Kind::kReply) return;
                  refuses_all_ = IsError(*answer.reply) && IsNonLocalKey(Text(*answer.reply));
                  if (refuses_all_)
                    ReportProblem(last_problem_, "", absl::UnavailableError(std::string(kRefusesAllScripts)));
                });
  link_.Flush();
}

}  // namespace distlock::store
