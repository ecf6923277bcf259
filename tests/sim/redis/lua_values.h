// SPDX-License-Identifier: Apache-2.0
//
// Values between RESP and Lua 5.1, converted as Redis does. Thread: the one of the lua_State.
#pragma once

#include <lua.hpp>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "redis/keyspace.h"
#include "redis/reply_sink.h"

namespace distlock::sim {

// A command's reply becomes one Lua value on the stack: a status {ok=...}, an error {err=...}, null becomes false.
class LuaReply final : public ReplySink {
 public:
  explicit LuaReply(lua_State* lua) : lua_(lua) {}
  void Integer(int64_t value) override;
  void Bulk(std::string_view text) override;
  void Null() override;
  void Status(std::string_view text) override;
  void Error(std::string_view text) override;
  void Array(size_t size) override;

  // Whether the reply itself, not an element of it, is an error.
  bool failed() const { return failed_; }

 private:
  struct Open {
    size_t size;
    int put;
  };

  void Place();
  void Field(const char* name, std::string_view text);

  lua_State* const lua_;
  absl::InlinedVector<Open, 4> open_;
  bool failed_ = false;
};

using CommandWords = absl::InlinedVector<std::string_view, 16>;

// The arguments of redis.call, which are the whole stack; they stay there, and the words point to them. False: one is
// neither string nor number.
bool CommandFromStack(lua_State* lua, CommandWords& words);

// Pops the value on top of the stack and converts it to a reply: numbers lose their fraction, arrays end before their
// first nil; false and values without a Redis reply become null.
void ReplyFromStack(lua_State* lua, ReplySink& reply);

// {text, ...}
void PushWords(lua_State* lua, Words words);

}  // namespace distlock::sim
