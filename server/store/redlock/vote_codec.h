// SPDX-License-Identifier: Apache-2.0
//
// The border between the ballot's commands to one server and RESP, for the scripts of lua/redlock; lua/README.md is the
// contract with them. Plain commands are the redis room's codec's. Pure. Thread: any.
#pragma once

#include <hiredis/hiredis.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lua/scripts_data.h"
#include "store/redis/command_sender.h"
#include "store/redis/keys.h"
#include "store/redis/server_clock.h"
#include "store/redlock/ballot/last_seen.h"
#include "store/redlock/ballot/messages.h"
#include "store/store_options.h"

namespace distlock::store {

// The scripts that a server needs besides those of a single one.
const std::vector<const lua::ScriptSource*>& RedlockScripts();

class VoteCodec {
 public:
  struct Encoded {
    const lua::ScriptSource* script = nullptr;
    std::string bytes;
  };
  struct Decoded {
    ballot::Outcome outcome;
    core::StoreTime time;    // by the server's clock, when the script ran; us = 0: not known
    bool malformed = false;  // the reply stream may be out of step with the commands
  };

  explicit VoteCodec(const LockOptions& options) : options_(options), keys_(options.key_prefix) {}

  // `clock`: of the server that takes the command. `trusts_publish`: as of Codec. REQUIRES: no Plain command.
  Encoded Encode(const ballot::NodeCommand& command, const ServerClock& clock, bool trusts_publish) const;
  // `script`: of the command that is answered.
  static Decoded Decode(const lua::ScriptSource& script, const Answer& answer);

  // For lua::kRedlockMember. `mark` "": only look. `identity`: of the server's data.
  enum class MarkHow : uint8_t { kFirst, kNew, kReplace };
  std::string EncodeMember(std::string_view mark, MarkHow how, const std::string& identity) const;
  // The mark that the server has now. An error: it could not be read or written.
  struct Member {
    std::string mark;
    bool is_new = false;  // it was made by kNew not long ago
    ballot::LastSeen seen;
  };
  static absl::StatusOr<Member> DecodeMember(const Answer& answer);

 private:
  // Const after construction.
  LockOptions options_;
  Keys keys_;
};

// The outcome of a Plain command, as the redis room's codec decoded it.
ballot::Outcome OutcomeOf(core::StoreReply&& reply);

}  // namespace distlock::store
