// SPDX-License-Identifier: Apache-2.0
#include "store/redis/node_commands.h"

#include <utility>
#include <variant>

#include "store/redis/error_class.h"
#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/redis/wire_value.h"

namespace distlock::store {

NodeCommands::NodeCommands(NodeContext& context, ServerChecks& checks, NodeClock& clock, NodeReport& report)
    : context_(context),
      checks_(checks),
      clock_(clock),
      report_(report),
      batch_(&context.codec, &context.scripts,
             [this](const SentCommand& sent, const Answer& answer) { OnAnswer(sent, answer); }),
      confirmation_(&context.link, *context.timers, context.options,
                    [this](core::StoreReply&& reply) { context_.Tell(std::move(reply)); }) {
  if (confirmation_.on()) {
    checks_.AskReplicasBy([this](std::function<void(int)> done) { confirmation_.Ask(std::move(done)); });
  }
}

std::string NodeCommands::RefusalOf(const core::StoreCommand& command) const {
  if (!context_.up) return context_.down_cause;
  return doubt_.Refusal().empty() ? confirmation_.Refusal(command) : doubt_.Refusal();
}

void NodeCommands::Submit(core::StoreCommand&& command, uint64_t least_token) {
  const std::string refusal = RefusalOf(command);
  if (!context_.up || !refusal.empty()) return Refuse(command, refusal);
  checks_.OnSent(command);
  confirmation_.OnSent(command);
  if (least_token == 0) return batch_.Add(std::move(command));
  batch_.Send();
  Encoded encoded = context_.codec.Encode(command, least_token);
  context_.scripts.Call(*encoded.script, std::move(encoded.bytes),
                        [this, sent = encoded.sent](const Answer& answer) { OnAnswer(sent, answer); });
}

void NodeCommands::SubmitAlone(const core::StoreCommand& command, bool asking) {
  const std::string refusal = RefusalOf(command);
  if (!context_.up || !refusal.empty()) return Refuse(command, refusal);
  checks_.OnSent(command);
  confirmation_.OnSent(command);
  if (asking) context_.link.Send(MakeCommand({"ASKING"}), [](const Answer&) {});
  batch_.SendAlone(command);
}

void NodeCommands::Refuse(const core::StoreCommand& command, std::string_view cause) {
  context_.link.Reject(
      [this, sent = context_.codec.Encode(command).sent](const Answer& answer) { OnAnswer(sent, answer); }, cause);
}

void NodeCommands::Call(const lua::ScriptSource& script, std::string call, CommandSender::Done done) {
  if (!context_.up) return context_.link.Reject(std::move(done), context_.down_cause);
  batch_.Send();
  context_.scripts.Call(script, std::move(call), [this, done = std::move(done)](const Answer& answer) mutable {
    if (answer.kind == Answer::Kind::kReply) {
      const uint64_t time = Number(ReplyArray(*answer.reply), 1).value_or(0);
      if (time > 0) clock_.Learn(answer.sent, answer.received, AsStoreTime(time));
      if (IsError(*answer.reply) && NeedsNewConnection(Text(*answer.reply))) {
        context_.leave_server(std::string(Text(*answer.reply)));
      }
    }
    done(answer);
  });
}

void NodeCommands::Flush() {
  batch_.Send();
  confirmation_.Flush();
  context_.link.Flush();
}

void NodeCommands::OnServer() {
  confirmation_.OnServer();
  refuses_all_ = false;
  suspecting_ = false;
}

void NodeCommands::OnRefused(const std::string& words) {
  doubt_.OnRefused(words, context_.timers->Now());
  report_.OnRefused({core::FailureKind::kUnavailable, words});
}

void NodeCommands::OnAnswer(const SentCommand& sent, const Answer& answer) {
  const bool refused = answer.reply != nullptr && IsError(*answer.reply);
  const std::string_view error = refused ? Text(*answer.reply) : "";
  const bool in_cluster = context_.shard.has_value();
  if (refused) doubt_.OnRefused(error, context_.timers->Now());
  if (refused && in_cluster && IsRedirect(error) && context_.owner->OnNodeRedirect(sent.op, error)) return;
  if (refused && in_cluster && IsNonLocalKey(error)) {
    Suspect();
    // The script's first call is refused then, so nothing has run.
    if (refuses_all_) {
      const core::StoreFailed failed{core::FailureKind::kUnavailable, std::string(kRefusesAllScripts)};
      return confirmation_.OnAnswer({sent.op, failed});
    }
  }
  Decoded decoded = context_.codec.Decode(sent, answer);
  if (decoded.time.us > 0) clock_.Learn(answer.sent, answer.received, decoded.time);
  if (!decoded.reconnect.empty()) context_.leave_server(decoded.reconnect);
  checks_.OnAnswered(sent, decoded.reply);
  if (const auto* failed = std::get_if<core::StoreFailed>(&decoded.reply.outcome)) report_.OnRefused(*failed);
  confirmation_.OnAnswer(std::move(decoded.reply));
}

void NodeCommands::Suspect() {
  if (!context_.up || std::exchange(suspecting_, true)) return;
  const Codec& codec = context_.codec;
  const std::string key = codec.keys().Marker(context_.shard->tag);
  context_.scripts.Call(lua::kProbe, MakeCommand({"EVALSHA", lua::kProbe.sha1, "1", key, codec.grant_channel()}),
                        [this](const Answer& answer) {
                          suspecting_ = false;
                          if (answer.kind != Answer::Kind::kReply) return;
                          refuses_all_ = IsError(*answer.reply) && IsNonLocalKey(Text(*answer.reply));
                          if (!refuses_all_) return;
                          report_.OnLinkProblem(absl::UnavailableError(std::string(kRefusesAllScripts)));
                        });
  context_.link.Flush();
}

}  // namespace distlock::store
