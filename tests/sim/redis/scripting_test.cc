// SPDX-License-Identifier: Apache-2.0
#include "lua/scripts_data.h"
#include "redis/model_fixture.h"

namespace distlock::sim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kFull = "OOM command not allowed when used memory > 'maxmemory'.";

class ScriptingTest : public ModelTest {};

TEST_F(ScriptingTest, LuaValuesBecomeReplies) {
  EXPECT_EQ(Eval("return 3.99"), "3");
  EXPECT_EQ(Eval("return -3.99"), "-3");
  EXPECT_EQ(Eval("return 9007199254740993"), "9007199254740992");
  EXPECT_EQ(Eval("return 'a\\0b'"), R"("a\x00b")");
  EXPECT_EQ(Eval("return true"), "1");
  EXPECT_EQ(Eval("return false"), "nil");
  EXPECT_EQ(Eval("return nil"), "nil");
  EXPECT_EQ(Eval("return"), "nil");
  EXPECT_EQ(Eval("return {1, {'x', {}}, false, nil, 5}"), R"([1, ["x", []], nil])");
  EXPECT_EQ(Eval("return {ok = 'FINE\\nreally'}"), "+FINE really");
  EXPECT_EQ(Eval("return {err = 'BAD thing'}"), "-BAD thing");
  EXPECT_EQ(Eval("return {1, {err = 'BAD thing'}}"), "[1, -BAD thing]");
}

TEST_F(ScriptingTest, RepliesBecomeLuaValues) {
  EXPECT_EQ(Eval("return type(redis.call('GET', 'none'))"), "\"boolean\"");
  EXPECT_EQ(Eval("return redis.call('SET', 'k', 'v').ok"), "\"OK\"");
  EXPECT_EQ(Eval("return redis.call('MGET', 'k', 'none')[2] == false and 'yes'"), "\"yes\"");
  EXPECT_EQ(Eval("return redis.call('EXISTS', 'k') + 1"), "2");
  EXPECT_EQ(Eval("return redis.pcall('HLEN', 'k').err"),
            "\"WRONGTYPE Operation against a key holding the wrong kind of value\"");
  EXPECT_EQ(Eval("return #redis.call('ZRANGE', 'none', 0, -1)"), "0");
}

// Its memory goes back to what it was, in the midst of these calls.
TEST_F(ScriptingTest, WhatCallsLeaveBehindIsForgotten) {
  constexpr std::string_view kMuch =
      "local t = {} for i = 1, ARGV[2] do t[i] = ARGV[1] .. i end redis.call('SET', 'last', t[#t]) return t[#t]";
  for (int call = 0; call < 600; ++call) {
    const std::string word = store::Cat("w", call);
    ASSERT_EQ(Eval(kMuch, {word, "500"}), store::Cat("\"", word, "500\""));
    ASSERT_EQ(Do({"GET", "last"}), store::Cat("\"", word, "500\""));
    if (call % 199 == 0) {
      ASSERT_EQ(Eval(store::Cat("return ", call)), store::Cat(call)) << "a script that is new";
    }
    if (call % 50 == 0) {
      ASSERT_THAT(Eval("error(ARGV[1])", {word}), HasSubstr(word));
    }
  }
  EXPECT_EQ(Eval("return #string.rep('x', 70000000)"), "70000000") << "no memory of that size is kept";
  for (int call = 0; call < 300; ++call) {
    ASSERT_EQ(Eval(kMuch, {"w", "500"}), "\"w500\"");
  }
}

TEST_F(ScriptingTest, ArgumentsAreStringsOrNumbers) {
  EXPECT_EQ(Eval("redis.call('SET', KEYS[1], ARGV[1] .. #ARGV); return redis.call('GET', 'k')", {"a", "b"}), "\"a2\"");
  EXPECT_EQ(Eval("redis.call('SET', 'k', 12); return redis.call('GET', 'k')"), "\"12\"");
  EXPECT_EQ(Eval("redis.call('SET', 'k', 0.1); return redis.call('GET', 'k')"), "\"0.10000000000000001\"");
  EXPECT_EQ(Eval("redis.call('SET', 'k', 2^53 - 1); return redis.call('GET', 'k')"), "\"9007199254740991\"");
  EXPECT_EQ(Eval("redis.call('SET', 'k', 1e17); return redis.call('GET', 'k')"), "\"1e+17\"");
  EXPECT_EQ(Eval("return redis.pcall('SET', 'k', {})"),
            "-ERR Lua redis lib command arguments must be strings or integers");
  EXPECT_EQ(Eval("return redis.pcall()"), "-ERR Please specify at least one argument for this redis lib call");
}

TEST_F(ScriptingTest, AnErrorEndsTheScriptAndSaysWhere) {
  Do({"SET", "k", "v"});
  EXPECT_THAT(Eval("redis.call('SET', 'first', '1')\nreturn redis.call('HLEN', 'k')"),
              testing::MatchesRegex("-WRONGTYPE Operation .* of value script: [0-9a-f]{40}, on @user_script:2\\."));
  EXPECT_EQ(Do({"EXISTS", "first"}), "1");
  EXPECT_THAT(Eval("local x\nreturn x.y"),
              testing::MatchesRegex("-ERR user_script:2: attempt to index local 'x' \\(a nil value\\) script: "
                                    "[0-9a-f]{40}, on @user_script:2\\."));
  EXPECT_THAT(Eval("error({err = 'MINE ' .. 1})"), StartsWith("-MINE 1 script: "));
  EXPECT_THAT(Eval("return redis.call('NOPE')"), StartsWith("-ERR Unknown Redis command called from script script: "));
  EXPECT_THAT(Eval("return redis.call('GET')"), StartsWith("-ERR Wrong number of args calling Redis command from "));
  EXPECT_THAT(Eval("return redis.call('EVAL', 'return 1', 0)"), StartsWith("-ERR This Redis command is not allowed "));
  EXPECT_THAT(Eval("return )"), StartsWith("-ERR Error compiling script (new function): user_script:1: unexpected "));
}

TEST_F(ScriptingTest, GlobalsAreProtected) {
  EXPECT_THAT(Eval("x = 1"), HasSubstr("Attempt to modify a readonly table"));
  EXPECT_THAT(Eval("string.x = 1"), HasSubstr("Attempt to modify a readonly table"));
  EXPECT_THAT(Eval("redis.call = nil"), HasSubstr("Attempt to modify a readonly table"));
  for (const std::string_view name : {"x", "os", "io", "print", "require", "loadstring", "collectgarbage"}) {
    EXPECT_THAT(Eval(store::Cat("return ", name, " == 1")),
                HasSubstr(store::Cat("nonexistent global variable '", name, "'")));
  }
  EXPECT_EQ(Eval("return math.random"), "nil");
}

TEST_F(ScriptingTest, KeysAndArgumentsAreCounted) {
  EXPECT_EQ(Do({"EVAL", "return {KEYS[2], ARGV[1]}", "2", "a", "b", "c"}), R"(["b", "c"])");
  EXPECT_EQ(Do({"EVAL", "return 1", "x"}), "-ERR value is not an integer or out of range");
  EXPECT_EQ(Do({"EVAL", "return 1", "2", "a"}), "-ERR Number of keys can't be greater than number of args");
  EXPECT_EQ(Do({"EVAL", "return 1", "-1"}), "-ERR Number of keys can't be negative");
}

TEST_F(ScriptingTest, EachServerHasItsOwnScriptCache) {
  const std::string sha1(lua::kInspect.sha1);
  const std::string missing = "-NOSCRIPT No matching script. Please use EVAL.";
  EXPECT_EQ(Do({"EVALSHA", sha1, "0"}), missing);
  EXPECT_EQ(Do({"SCRIPT", "LOAD", lua::kInspect.body}), Quoted(sha1));
  EXPECT_TRUE(model.HasScript(sha1));
  EXPECT_EQ(Do({"EVALSHA", sha1, "4", "a:{l}:h", "t", "q", "w", "9", "9"}),
            R"([13, "1700000000000000", "0", 0, 0, 0])");
  RedisModel other(kStart);
  EXPECT_EQ(ReplyText(*other.Execute(1, {"EVALSHA", sha1, "0"})), missing);
  EXPECT_EQ(Do({"SCRIPT", "EXISTS", sha1, "x"}), "[1, 0]");
  EXPECT_EQ(Do({"SCRIPT", "FLUSH"}), "+OK");
  EXPECT_EQ(Do({"EVALSHA", sha1, "0"}), missing);
  EXPECT_EQ(Do({"EVALSHA", "short", "x"}), missing);
}

TEST_F(ScriptingTest, OfTheMemoryLimitAScriptMustOnlyBewareUntilItsFirstWrite) {
  model.SetMaxMemory(1);
  EXPECT_EQ(Do({"SET", "k", "v"}), store::Cat("-", kFull));
  EXPECT_THAT(Eval("return redis.call('SET', 'k', 'v')"),
              testing::MatchesRegex(store::Cat("-", kFull, " script: [0-9a-f]{40}, on @user_script:1\\.")));
  EXPECT_EQ(Eval("return redis.pcall('SET', 'k', 'v')"), store::Cat("-", kFull));
  EXPECT_EQ(Eval("redis.call('DEL', 'none'); return redis.call('SET', 'k', 'v')"), "+OK");
  EXPECT_EQ(Eval("redis.call('GET', 'k'); return redis.pcall('SET', 'k', 'v')"), store::Cat("-", kFull));
  EXPECT_EQ(Do({"PEXPIRE", "k", "5"}), "1");
  model.SetMaxMemory(model.used_memory());
  EXPECT_EQ(Do({"SET", "longer", "v"}), "+OK");
  EXPECT_EQ(Do({"SET", "k", "v"}), store::Cat("-", kFull));
}

TEST_F(ScriptingTest, RefusedWritesEndAScriptAtItsFirst) {
  model.RefuseWrites("NOREPLICAS Not enough good replicas to write.");
  EXPECT_EQ(Do({"SET", "k", "v"}), "-NOREPLICAS Not enough good replicas to write.");
  EXPECT_EQ(Do({"GET", "k"}), "nil");
  EXPECT_THAT(Eval("redis.call('GET', 'k')\nreturn redis.call('DEL', 'k')"),
              testing::MatchesRegex("-NOREPLICAS .* write\\. script: [0-9a-f]{40}, on @user_script:2\\."));
  model.RefuseWrites("");
  EXPECT_EQ(Eval("return redis.call('DEL', 'k')"), "0");
  model.RefuseAll("LOADING Redis is loading the dataset in memory");
  EXPECT_EQ(Eval("return 1"), "-LOADING Redis is loading the dataset in memory");
  EXPECT_EQ(Do({"PING"}), "-LOADING Redis is loading the dataset in memory");
}

}  // namespace
}  // namespace distlock::sim
