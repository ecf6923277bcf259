// SPDX-License-Identifier: Apache-2.0
#include "redis/scripting.h"

#include <openssl/sha.h>

#include <cstdlib>
#include <lua.hpp>

#include "redis/lua_values.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

constexpr const char* kBasicFunctions[] = {"assert",   "error",  "getmetatable", "ipairs", "next",         "pairs",
                                           "rawequal", "rawget", "rawset",       "select", "setmetatable", "tonumber",
                                           "tostring", "type",   "unpack",       "xpcall", "_VERSION"};

std::string Sha1Hex(std::string_view text) {
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

int RefuseGlobalRead(lua_State* lua) {
  return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", lua_tostring(lua, 2));
}

int RefuseWrite(lua_State* lua) { return luaL_error(lua, "Attempt to modify a readonly table"); }

// Replaces the table on top of the stack by a read-only view of it.
void Protect(lua_State* lua) {
  lua_newtable(lua);
  lua_createtable(lua, 0, 3);
  lua_pushvalue(lua, -3);
  lua_setfield(lua, -2, "__index");
  lua_pushcfunction(lua, RefuseWrite);
  lua_setfield(lua, -2, "__newindex");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_setmetatable(lua, -2);
  lua_remove(lua, -2);
}

// Like Redis' own handler: records the place of the error in the script.
int HandleError(lua_State* lua) {
  lua_Debug where{};
  bool found = lua_getstack(lua, 1, &where) != 0 && lua_getinfo(lua, "nSl", &where) != 0;
  if (found && std::string_view(where.what) == "C") {
    found = lua_getstack(lua, 2, &where) != 0 && lua_getinfo(lua, "nSl", &where) != 0;
  }
  if (!lua_istable(lua, 1)) {
    lua_getglobal(lua, "tostring");
    lua_pushvalue(lua, 1);
    lua_call(lua, 1, 1);
    lua_pushliteral(lua, "ERR ");
    lua_insert(lua, -2);
    lua_concat(lua, 2);
    lua_createtable(lua, 0, 3);
    lua_insert(lua, -2);
    lua_setfield(lua, -2, "err");
    lua_replace(lua, 1);
  }
  lua_settop(lua, 1);
  if (found) {
    lua_pushstring(lua, where.source);
    lua_setfield(lua, 1, "source");
    lua_pushinteger(lua, where.currentline);
    lua_setfield(lua, 1, "line");
  }
  return 1;
}

// Leaves the reply on the stack; false when it is an error, which the caller must raise: no C++ object may be alive
// when Lua jumps.
bool RunCommand(lua_State* lua) {
  const auto* call = *static_cast<const ScriptEngine::CallCommand**>(lua_touserdata(lua, lua_upvalueindex(1)));
  LuaReply reply(lua);
  CommandWords words;
  if (lua_gettop(lua) == 0) {
    reply.Error("ERR Please specify at least one argument for this redis lib call");
  } else if (!CommandFromStack(lua, words)) {
    reply.Error("ERR Lua redis lib command arguments must be strings or integers");
  } else {
    (*call)(words, reply);
  }
  return !reply.failed();
}

int RedisCall(lua_State* lua) { return RunCommand(lua) ? 1 : lua_error(lua); }

int RedisPcall(lua_State* lua) {
  RunCommand(lua);
  return 1;
}

// Redis' replacement of pcall: an error of a command is caught as its text, not as a table.
int CaughtCall(lua_State* lua) {
  luaL_checkany(lua, 1);
  lua_pushboolean(lua, 1);
  lua_insert(lua, 1);
  if (lua_pcall(lua, lua_gettop(lua) - 2, LUA_MULTRET, 0) == 0) return lua_gettop(lua);
  if (lua_istable(lua, -1)) {
    lua_getfield(lua, -1, "err");
    lua_remove(lua, lua_isstring(lua, -1) ? -2 : -1);
  }
  lua_pushboolean(lua, 0);
  lua_replace(lua, 1);
  return 2;
}

void AppendField(lua_State* lua, const char* name, std::string_view before, std::string& text) {
  lua_getfield(lua, -1, name);
  if (const char* found = lua_tostring(lua, -1)) store::Append(text, before, found);
  lua_pop(lua, 1);
}

// Pops the error on top of the stack, and returns it as the client sees it.
std::string ErrorText(lua_State* lua, const Script& script) {
  std::string text;
  std::string where;
  AppendField(lua, "err", "", text);
  AppendField(lua, "source", "", where);
  if (!where.empty()) {
    store::Append(text, " script: ", script.sha1, ", on ", where);
    AppendField(lua, "line", ":", text);
    text += '.';
  }
  lua_pop(lua, 1);
  return text;
}

void CopyGlobal(lua_State* lua, const char* name, int to) {
  lua_getglobal(lua, name);
  lua_setfield(lua, to, name);
}

void CopyLibrary(lua_State* lua, const char* name, int to) {
  lua_getglobal(lua, name);
  Protect(lua);
  lua_setfield(lua, to, name);
}

void PushRedisFunction(lua_State* lua, lua_CFunction function, const char* name, void* running) {
  lua_pushlightuserdata(lua, running);
  lua_pushcclosure(lua, function, 1);
  lua_setfield(lua, -2, name);
}

}  // namespace

ScriptEngine& ScriptEngine::OfThisThread() {
  static thread_local ScriptEngine engine;
  return engine;
}

ScriptEngine::ScriptEngine() : lua_(lua_newstate(LuaMemory::Allocate, &memory_)) {
  if (lua_ == nullptr) std::abort();
  luaL_openlibs(lua_);
  lua_getglobal(lua_, "math");
  for (const char* name : {"random", "randomseed"}) {
    lua_pushnil(lua_);
    lua_setfield(lua_, -2, name);
  }
  lua_settop(lua_, 0);

  lua_newtable(lua_);
  for (const char* name : kBasicFunctions) CopyGlobal(lua_, name, 1);
  lua_pushcfunction(lua_, CaughtCall);
  lua_setfield(lua_, 1, "pcall");
  for (const char* name : {"string", "table", "math"}) CopyLibrary(lua_, name, 1);
  lua_newtable(lua_);
  PushRedisFunction(lua_, RedisCall, "call", static_cast<void*>(&running_));
  PushRedisFunction(lua_, RedisPcall, "pcall", static_cast<void*>(&running_));
  Protect(lua_);
  lua_setfield(lua_, 1, "redis");
  lua_newtable(lua_);
  lua_pushcfunction(lua_, RefuseGlobalRead);
  lua_setfield(lua_, -2, "__index");
  lua_setmetatable(lua_, 1);
  lua_pushvalue(lua_, 1);
  globals_ = luaL_ref(lua_, LUA_REGISTRYINDEX);

  Protect(lua_);
  environment_ = luaL_ref(lua_, LUA_REGISTRYINDEX);
  lua_pushcfunction(lua_, HandleError);
  error_handler_ = luaL_ref(lua_, LUA_REGISTRYINDEX);
}

ScriptEngine::~ScriptEngine() { lua_close(lua_); }

const Script* ScriptEngine::Compile(std::string_view text, std::string& error) {
  const auto known = by_text_.find(absl::string_view(text.data(), text.size()));
  if (known != by_text_.end()) return known->second.get();
  if (luaL_loadbuffer(lua_, text.data(), text.size(), "@user_script") != 0) {
    error = lua_tostring(lua_, -1);
    lua_pop(lua_, 1);
    return nullptr;
  }
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, environment_);
  lua_setfenv(lua_, -2);
  runs_ = 0;
  auto script = std::make_unique<Script>(Script{Sha1Hex(text), luaL_ref(lua_, LUA_REGISTRYINDEX)});
  return by_text_.emplace(std::string(text), std::move(script)).first->second.get();
}

void ScriptEngine::Run(const Script& script, Words keys, Words args, CallCommand call, ReplySink& reply) {
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, globals_);
  PushWords(lua_, keys);
  lua_setfield(lua_, -2, "KEYS");
  PushWords(lua_, args);
  lua_setfield(lua_, -2, "ARGV");
  lua_settop(lua_, 0);

  running_ = &call;
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, error_handler_);
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, script.function);
  const int failed = lua_pcall(lua_, 0, 1, 1);
  running_ = nullptr;
  if (failed == 0) {
    ReplyFromStack(lua_, reply);
  } else if (lua_istable(lua_, -1)) {
    reply.Error(ErrorText(lua_, script));
  } else {
    const char* what = lua_tostring(lua_, -1);
    reply.Error(store::Cat("ERR Error running script ", script.sha1, ", ", what == nullptr ? "" : what));
  }
  lua_settop(lua_, 0);
  LeaveNothing();
}

// A script leaves nothing behind but garbage. Once no more scripts are compiled, that is not collected, but forgotten.
void ScriptEngine::LeaveNothing() {
  if (runs_ > kSettled) {
    if (memory_.grown() > kMostGarbage) memory_.GoBack();
  } else if (++runs_ > kSettled) {
    // Lua itself collects only what a single call leaves that makes very much of it.
    lua_gc(lua_, LUA_GCSETPAUSE, 1000);
    lua_gc(lua_, LUA_GCCOLLECT, 0);
    if (!memory_.Keep()) runs_ = 0;
  }
}

}  // namespace distlock::sim
