// SPDX-License-Identifier: Apache-2.0
//
// Redis scripts on an embedded Lua 5.1: redis.call, redis.pcall, KEYS and ARGV, string, table, math and the basic
// functions, with the conversions and error texts of Redis 7. It has no functions that could make two runs differ
// (random numbers, the state of the memory, access to the system). Globals and libraries are protected.
//
// One engine per thread, with each script compiled once for all models of that thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "redis/keyspace.h"
#include "redis/lua_memory.h"
#include "redis/reply_sink.h"

struct lua_State;

namespace distlock::sim {

// Lives as long as the thread.
struct Script {
  std::string sha1;  // of its text, 40 lowercase hex digits
  int function = 0;  // in Lua's registry
};

class ScriptEngine {
 public:
  // Runs one command for a script: exactly one value goes into the sink.
  using CallCommand = absl::FunctionRef<void(Words command, ReplySink& reply)>;

  static ScriptEngine& OfThisThread();
  ScriptEngine();
  ~ScriptEngine();
  ScriptEngine(const ScriptEngine&) = delete;
  ScriptEngine& operator=(const ScriptEngine&) = delete;

  // nullptr, with Lua's message, when it does not compile.
  const Script* Compile(std::string_view text, std::string& error);
  // Must not be called from within a script.
  void Run(const Script& script, Words keys, Words args, CallCommand call, ReplySink& reply);

 private:
  static constexpr int kSettled = 100;                     // calls since a script was compiled
  static constexpr size_t kMostGarbage = size_t{1} << 20;  // bytes

  void LeaveNothing();

  LuaMemory memory_;
  lua_State* const lua_;
  int environment_ = 0;  // the globals of a script, in Lua's registry
  int globals_ = 0;      // the table behind environment_, in Lua's registry
  int error_handler_ = 0;
  const CallCommand* running_ = nullptr;
  int runs_ = 0;  // since a script was compiled, no more than counts
  absl::flat_hash_map<std::string, std::unique_ptr<Script>> by_text_;
};

}  // namespace distlock::sim
