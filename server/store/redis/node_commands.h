// SPDX-License-Identifier: Apache-2.0
//
// The commands of a node: which are sent, and what follows from the answers. Thread: the loop's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/redis/doubt.h"
#include "store/redis/node_clock.h"
#include "store/redis/node_context.h"
#include "store/redis/node_report.h"
#include "store/redis/replica_confirmation.h"
#include "store/redis/script_batch.h"
#include "store/redis/server_checks.h"

namespace distlock::store {

class NodeCommands {
 public:
  NodeCommands(NodeContext& context, ServerChecks& checks, NodeClock& clock, NodeReport& report);

  // As the methods of Store. `least_token` as of Codec::Encode.
  void Submit(core::StoreCommand&& command, uint64_t least_token = 0);
  void Flush();
  // As Submit, but as a call of its own, never together with others; and behind ASKING if `asking`.
  void SubmitAlone(const core::StoreCommand& command, bool asking);
  // Calls a script that the node was told of, in an encoding of the caller's. `done` runs once, when Submit would have
  // answered.
  void Call(const lua::ScriptSource& script, std::string call, CommandSender::Done done);

  // The link is up.
  void OnServer();
  // Another server is meant from now on.
  void OnMoved() { doubt_.OnMoved(); }
  // The deciders have named this server as the primary, when asked at `asked`.
  void OnNamed(core::Instant asked) { doubt_.OnNamed(asked); }
  // The server refuses to write, in these words.
  void OnRefused(const std::string& words);
  void Stop() { confirmation_.Stop(); }

 private:
  // Why the command is not to be sent now; "": it is.
  std::string RefusalOf(const core::StoreCommand& command) const;
  // Answers "not sent", later.
  void Refuse(const core::StoreCommand& command, std::string_view cause);
  void OnAnswer(const SentCommand& sent, const Answer& answer);
  // A script was refused for a key that is not here. Finds out whether every script is.
  void Suspect();

  NodeContext& context_;
  ServerChecks& checks_;
  NodeClock& clock_;
  NodeReport& report_;
  bool refuses_all_ = false;  // the server refuses every script: kRefusesAllScripts
  bool suspecting_ = false;   // that is being found out
  ScriptBatch batch_;
  Doubt doubt_;
  ReplicaConfirmation confirmation_;
};

}  // namespace distlock::store
