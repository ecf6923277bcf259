// SPDX-License-Identifier: Apache-2.0
#include "store/redis/node_queries.h"

#include <memory>
#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::store {

void NodeQueries::RefuseSoon(PendingQueries::Id id, absl::Status why) {
  context_.link.Reject([this, id, why = std::move(why)](const Answer&) { queries_.Refuse(id, why); }, "");
}

// A server that has become a replica goes on answering what only reads, from data that grow old. A write tells it, also
// one that changes nothing. In a Cluster a replica sends who asks for a lock to its primary.
void NodeQueries::RefuseIfReplica(PendingQueries::Id id) {
  if (context_.shard) return;
  context_.link.Send(MakeCommand({"HDEL", context_.codec.keys().Schema(""), ""}), [this, id](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || !IsError(*answer.reply)) return;
    const std::string error(Text(*answer.reply));
    if (!NeedsNewConnection(error)) return;
    queries_.Refuse(id, absl::UnavailableError(error));
    if (context_.up) context_.leave_server(error);
  });
}

void NodeQueries::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                          std::function<void(absl::StatusOr<LockView>)> done,
                          std::function<bool(std::string_view)> redirected) {
  const auto id = queries_.Open(timeout, done);
  if (!context_.up) return RefuseSoon(id, absl::UnavailableError(context_.down_cause));
  RefuseIfReplica(id);
  context_.scripts.Call(
      lua::kInspect, context_.codec.EncodeInspect(name, max_waiters),
      [this, id, name, done = std::move(done), redirected = std::move(redirected)](const Answer& answer) {
        if (!queries_.Take(id)) return;
        const bool refused = answer.kind == Answer::Kind::kReply && IsError(*answer.reply);
        if (refused && redirected && IsRedirect(Text(*answer.reply)) && redirected(Text(*answer.reply))) {
          return;
        }
        if (answer.kind != Answer::Kind::kReply) return done(absl::UnavailableError(answer.cause));
        auto view = Codec::DecodeInspect(name, *answer.reply);
        if (view.ok()) view->held_off = checks_.HeldOffFor();
        done(std::move(view));
      });
  context_.link.Flush();
}

void NodeQueries::List(const std::string& escaped_namespace, const std::string& escaped_key_prefix, uint32_t page_size,
                       const std::string& page_token, core::Duration timeout,
                       std::function<void(absl::StatusOr<LockPage>)> done) {
  const auto id = queries_.Open(timeout, done);
  const std::string within = escaped_namespace.empty() ? "" : Cat(escaped_namespace, "/", escaped_key_prefix);
  auto from = PageToken::Decode(page_token, within);
  if (!from.ok()) return RefuseSoon(id, from.status());
  if (!context_.up) return RefuseSoon(id, absl::UnavailableError(context_.down_cause));
  RefuseIfReplica(id);
  const LockListing::Means means{context_.codec, context_.link, context_.scripts, queries_};
  std::make_shared<LockListing>(means, id, context_.codec.keys().HolderPattern(escaped_namespace, escaped_key_prefix),
                                page_size, *std::move(from),
                                [this, done = std::move(done)](absl::StatusOr<LockPage> page) {
                                  if (page.ok()) page->held_off = checks_.HeldOffFor();
                                  done(std::move(page));
                                })
      ->Step();
}

}  // namespace distlock::store
