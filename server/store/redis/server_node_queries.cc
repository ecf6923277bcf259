// SPDX-License-Identifier: Apache-2.0
//
// What a node is asked for people: a lock, and lists of locks.
#include <utility>
#include <variant>

#include "store/redis/error_class.h"
#include "store/redis/server_node.h"
#include "store/text.h"

namespace distlock::store {

void ServerNode::RefuseSoon(PendingQueries::Id id, absl::Status why) {
  link_.Reject([this, id, why = std::move(why)](const Answer&) { queries_.Refuse(id, why); }, "");
}

// A server that has become a replica goes on answering what only reads, from data that grow old. A write tells it, also
// one that changes nothing. In a Cluster a replica sends who asks for a lock to its primary.
void ServerNode::RefuseIfReplica(PendingQueries::Id id) {
  if (shard_) return;
  link_.Send(MakeCommand({"HDEL", codec_.keys().Schema(""), ""}), [this, id](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || !IsError(*answer.reply)) return;
    const std::string error(Text(*answer.reply));
    if (!NeedsNewConnection(error)) return;
    queries_.Refuse(id, absl::UnavailableError(error));
    if (up_) LeaveServer(error);
  });
}

void ServerNode::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                         std::function<void(absl::StatusOr<LockView>)> done,
                         std::function<bool(std::string_view)> redirected) {
  const auto id = queries_.Open(timeout, done);
  if (!up_) return RefuseSoon(id, absl::UnavailableError(down_cause_));
  RefuseIfReplica(id);
  scripts_.Call(lua::kInspect, codec_.EncodeInspect(name, max_waiters),
                [this, id, name, done = std::move(done), redirected = std::move(redirected)](const Answer& answer) {
                  if (!queries_.Take(id)) return;
                  const bool refused = answer.kind == Answer::Kind::kReply && IsError(*answer.reply);
                  if (refused && redirected && IsRedirect(Text(*answer.reply)) && redirected(Text(*answer.reply))) {
                    return;
                  }
                  if (answer.kind != Answer::Kind::kReply) return done(absl::UnavailableError(answer.cause));
                  auto view = Codec::DecodeInspect(name, *answer.reply);
                  if (view.ok()) view->held_off = HeldOffFor();
                  done(std::move(view));
                });
  link_.Flush();
}

void ServerNode::List(const std::string& escaped_namespace, const std::string& escaped_key_prefix, uint32_t page_size,
                      const std::string& page_token, core::Duration timeout,
                      std::function<void(absl::StatusOr<LockPage>)> done) {
  const auto id = queries_.Open(timeout, done);
  const std::string within = escaped_namespace.empty() ? "" : Cat(escaped_namespace, "/", escaped_key_prefix);
  auto from = PageToken::Decode(page_token, within);
  if (!from.ok()) return RefuseSoon(id, from.status());
  if (!up_) return RefuseSoon(id, absl::UnavailableError(down_cause_));
  RefuseIfReplica(id);
  const LockListing::Means means{codec_, link_, scripts_, queries_};
  std::make_shared<LockListing>(means, id, codec_.keys().HolderPattern(escaped_namespace, escaped_key_prefix),
                                page_size, *std::move(from),
                                [this, done = std::move(done)](absl::StatusOr<LockPage> page) {
                                  if (page.ok()) page->held_off = HeldOffFor();
                                  done(std::move(page));
                                })
      ->Step();
}

}  // namespace distlock::store
