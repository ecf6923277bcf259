// SPDX-License-Identifier: Apache-2.0
#include "redis/lua_values.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace distlock::sim {
namespace {

constexpr double kExactMax = 1e15;  // up to it "%.17g" prints integral numbers as plain digits

std::string_view TextAt(lua_State* lua, int index) {
  size_t size = 0;
  const char* text = lua_tolstring(lua, index, &size);
  return {text, size};
}

void ReplaceNumberByText(lua_State* lua, int index) {
  const double number = lua_tonumber(lua, index);
  char text[64];
  size_t size = 0;
  if (std::abs(number) < kExactMax && std::trunc(number) == number && !(number == 0 && std::signbit(number))) {
    size = static_cast<size_t>(std::to_chars(text, text + sizeof(text), static_cast<int64_t>(number)).ptr - text);
  } else {
    size = static_cast<size_t>(std::snprintf(text, sizeof(text), "%.17g", number));
  }
  lua_pushlstring(lua, text, size);
  lua_replace(lua, index);
}

// Like a C cast on the servers' processors, also for values that do not fit.
int64_t ToInteger(double number) {
  const bool fits = number >= -9223372036854775808.0 && number < 9223372036854775808.0;
  return fits ? static_cast<int64_t>(number) : std::numeric_limits<int64_t>::min();
}

// Whether the table on top of the stack has a string in this field; if so, pushes the string.
bool PushTextField(lua_State* lua, const char* name) {
  lua_pushstring(lua, name);
  lua_rawget(lua, -2);
  if (lua_type(lua, -1) == LUA_TSTRING) return true;
  lua_pop(lua, 1);
  return false;
}

std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return line;
}

void ReplyFromTable(lua_State* lua, ReplySink& reply) {
  if (PushTextField(lua, "err")) {
    reply.Error(OneLine(TextAt(lua, -1)));
    lua_pop(lua, 2);
    return;
  }
  if (PushTextField(lua, "ok")) {
    reply.Status(OneLine(TextAt(lua, -1)));
    lua_pop(lua, 2);
    return;
  }
  int size = 0;
  for (bool more = true; more; size += more ? 1 : 0) {
    lua_rawgeti(lua, -1, size + 1);
    more = !lua_isnil(lua, -1);
    lua_pop(lua, 1);
  }
  reply.Array(static_cast<size_t>(size));
  for (int i = 1; i <= size; ++i) {
    lua_rawgeti(lua, -1, i);
    ReplyFromStack(lua, reply);
  }
  lua_pop(lua, 1);
}

}  // namespace

void LuaReply::Integer(int64_t value) {
  lua_pushnumber(lua_, static_cast<double>(value));
  Place();
}

void LuaReply::Bulk(std::string_view text) {
  lua_pushlstring(lua_, text.data(), text.size());
  Place();
}

void LuaReply::Null() {
  lua_pushboolean(lua_, 0);
  Place();
}

void LuaReply::Status(std::string_view text) { Field("ok", text); }

void LuaReply::Error(std::string_view text) {
  failed_ = open_.empty();
  Field("err", text);
}

void LuaReply::Array(size_t size) {
  lua_createtable(lua_, static_cast<int>(size), 0);
  if (size == 0) return Place();
  open_.push_back({size, 0});
}

// Puts the value on top of the stack into its array, and does the same with each array that this completes.
void LuaReply::Place() {
  while (!open_.empty()) {
    Open& open = open_.back();
    lua_rawseti(lua_, -2, ++open.put);
    if (static_cast<size_t>(open.put) < open.size) return;
    open_.pop_back();
  }
}

void LuaReply::Field(const char* name, std::string_view text) {
  lua_createtable(lua_, 0, 1);
  lua_pushlstring(lua_, text.data(), text.size());
  lua_setfield(lua_, -2, name);
  Place();
}

bool CommandFromStack(lua_State* lua, CommandWords& words) {
  const int count = lua_gettop(lua);
  for (int i = 1; i <= count; ++i) {
    const int type = lua_type(lua, i);
    if (type == LUA_TNUMBER) {
      ReplaceNumberByText(lua, i);
    } else if (type != LUA_TSTRING) {
      return false;
    }
    words.push_back(TextAt(lua, i));
  }
  return true;
}

void ReplyFromStack(lua_State* lua, ReplySink& reply) {
  if (!lua_checkstack(lua, 4)) {
    reply.Error("ERR reached lua stack limit");
    lua_pop(lua, 1);
    return;
  }
  switch (lua_type(lua, -1)) {
    case LUA_TTABLE:
      return ReplyFromTable(lua, reply);
    case LUA_TSTRING:
      reply.Bulk(TextAt(lua, -1));
      break;
    case LUA_TNUMBER:
      reply.Integer(ToInteger(lua_tonumber(lua, -1)));
      break;
    case LUA_TBOOLEAN:
      if (lua_toboolean(lua, -1)) {
        reply.Integer(1);
        break;
      }
      [[fallthrough]];
    default:
      reply.Null();
  }
  lua_pop(lua, 1);
}

void PushWords(lua_State* lua, Words words) {
  lua_createtable(lua, static_cast<int>(words.size()), 0);
  for (size_t i = 0; i < words.size(); ++i) {
    lua_pushlstring(lua, words[i].data(), words[i].size());
    lua_rawseti(lua, -2, static_cast<int>(i) + 1);
  }
}

}  // namespace distlock::sim
