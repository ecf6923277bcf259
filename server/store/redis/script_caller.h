// SPDX-License-Identifier: Apache-2.0
//
// Script calls that survive the loss of the server's script cache. The connection's owner loads every script once. When
// the cache is flushed later, the first NOSCRIPT sends one SCRIPT LOAD of that script, and each refused call is sent
// again behind it on the same connection, at most twice. Callers notice only the delay.
//
// Thread: the loop's. The sender outlives it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lua/scripts_data.h"
#include "store/redis/command_sender.h"

namespace distlock::store {

const std::vector<const lua::ScriptSource*>& AllScripts();
std::string LoadCommand(const lua::ScriptSource& script);

class ScriptCaller {
 public:
  explicit ScriptCaller(CommandSender* sender) : sender_(sender) {}

  // `call` is the EVALSHA of `script`. The answer is NOSCRIPT only when loading has not helped.
  void Call(const lua::ScriptSource& script, std::string call, CommandSender::Done done);

 private:
  void Send(const lua::ScriptSource& script, std::unique_ptr<const std::string> call, int tries_left,
            CommandSender::Done done);
  void Load(const lua::ScriptSource& script);

  CommandSender* const sender_;
  std::vector<const lua::ScriptSource*> loading_;
};

}  // namespace distlock::store
