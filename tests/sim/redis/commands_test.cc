// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "redis/model_fixture.h"
#include "store/redis/resp.h"

namespace distlock::sim {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr char kWrongType[] = "-WRONGTYPE Operation against a key holding the wrong kind of value";

class CommandsTest : public ModelTest {};

TEST_F(CommandsTest, Strings) {
  EXPECT_EQ(Do({"GET", "k"}), "nil");
  EXPECT_EQ(Do({"set", "k", "v", "px", "20"}), "+OK");
  EXPECT_EQ(Do({"GET", "k"}), "\"v\"");
  EXPECT_EQ(Do({"SET", "k", "w", "PX", "5", "NX"}), "nil");
  EXPECT_EQ(Do({"PTTL", "k"}), "20");
  EXPECT_EQ(Do({"SET", "k", "w"}), "+OK");
  EXPECT_EQ(Do({"PTTL", "k"}), "-1");
  EXPECT_EQ(Do({"LPUSH", "l", "a"}), "1");
  EXPECT_EQ(Do({"MGET", "k", "l", "none"}), "[\"w\", nil, nil]");
  EXPECT_EQ(Do({"EXISTS", "k", "l", "none", "k"}), "3");
  EXPECT_EQ(Do({"DEL", "k", "l", "none"}), "2");
  EXPECT_EQ(Do({"PTTL", "k"}), "-2");
}

TEST_F(CommandsTest, SetRefusesWhatItDoesNotUnderstand) {
  EXPECT_EQ(Do({"SET", "k", "v", "PX"}), "-ERR syntax error");
  EXPECT_EQ(Do({"SET", "k", "v", "EX", "1"}), "-ERR syntax error");
  EXPECT_EQ(Do({"SET", "k", "v", "PX", "0"}), "-ERR invalid expire time in 'set' command");
  EXPECT_EQ(Do({"SET", "k", "v", "PX", "9223372036854775807"}), "-ERR invalid expire time in 'set' command");
  for (const std::string_view bad : {"", "1.5", "+1", "01", " 1", "1 ", "x", "-0", "9223372036854775808"}) {
    EXPECT_EQ(Do({"SET", "k", "v", "PX", bad}), "-ERR value is not an integer or out of range") << bad;
  }
  EXPECT_EQ(Do({"EXISTS", "k"}), "0");
}

TEST_F(CommandsTest, SortedSets) {
  EXPECT_EQ(Do({"ZADD", "z", "2", "b", "1", "a", "2", "aa"}), "3");
  EXPECT_EQ(Do({"ZADD", "z", "2", "b"}), "0");
  EXPECT_EQ(Do({"ZRANGE", "z", "0", "-1", "WITHSCORES"}), R"(["a", "1", "aa", "2", "b", "2"])");
  EXPECT_EQ(Do({"ZADD", "z", "0.5", "b"}), "0");
  EXPECT_EQ(Do({"ZRANGE", "z", "0", "0", "withscores"}), R"(["b", "0.5"])");
  EXPECT_EQ(Do({"ZRANGE", "z", "-2", "9"}), R"(["a", "aa"])");
  EXPECT_EQ(Do({"ZRANGE", "z", "2", "1"}), "[]");
  EXPECT_EQ(Do({"ZRANK", "z", "aa"}), "2");
  EXPECT_EQ(Do({"ZRANK", "z", "x"}), "nil");
  EXPECT_EQ(Do({"ZCARD", "z"}), "3");
  EXPECT_EQ(Do({"ZCOUNT", "z", "-inf", "(2"}), "2");
  EXPECT_EQ(Do({"ZCOUNT", "z", "(0.5", "2"}), "2");
  EXPECT_EQ(Do({"ZCOUNT", "none", "1", "2"}), "0");
  EXPECT_EQ(Do({"ZCOUNT", "z", "one", "2"}), "-ERR min or max is not a float");
  EXPECT_THAT(model.Zset("z"), ElementsAre(Pair("b", 0.5), Pair("a", 1), Pair("aa", 2)));
  EXPECT_EQ(Do({"ZADD", "z", "nx", "7", "a", "7", "new"}), "1");
  EXPECT_EQ(Do({"ZRANGE", "z", "1", "-1", "WITHSCORES"}), R"(["a", "1", "aa", "2", "new", "7"])");
  EXPECT_EQ(Do({"ZADD", "z", "NX", "1"}), "-ERR syntax error");
  EXPECT_EQ(Do({"ZREM", "z", "new"}), "1");
  EXPECT_EQ(Do({"ZREM", "z", "a", "x", "b", "aa"}), "3");
  EXPECT_EQ(Do({"TYPE", "z"}), "+none");
  EXPECT_EQ(Do({"ZADD", "z", "1"}), "-ERR wrong number of arguments for 'zadd' command");
  EXPECT_EQ(Do({"ZADD", "z", "1", "a", "2"}), "-ERR syntax error");
  EXPECT_EQ(Do({"ZADD", "z", "one", "a"}), "-ERR value is not a valid float");
}

TEST_F(CommandsTest, Hashes) {
  EXPECT_EQ(Do({"HSET", "h", "a", "1", "b", "2"}), "2");
  EXPECT_EQ(Do({"HSET", "h", "a", "3"}), "0");
  EXPECT_EQ(Do({"HMGET", "h", "b", "x", "a"}), R"(["2", nil, "3"])");
  EXPECT_EQ(Do({"HMGET", "none", "b"}), "[nil]");
  EXPECT_EQ(Do({"HGET", "h", "a"}), R"("3")");
  EXPECT_EQ(Do({"HLEN", "h"}), "2");
  EXPECT_EQ(Do({"HEXISTS", "h", "a"}), "1");
  EXPECT_EQ(Do({"HEXISTS", "h", "x"}), "0");
  EXPECT_THAT(model.Hash("h"), ElementsAre(Pair("a", "3"), Pair("b", "2")));
  EXPECT_EQ(Do({"HSET", "h", "a"}), "-ERR wrong number of arguments for 'hset' command");
  EXPECT_EQ(Do({"HDEL", "h", "a", "b", "b"}), "2");
  EXPECT_EQ(Do({"EXISTS", "h"}), "0");
}

TEST_F(CommandsTest, AScanFindsEachKeyThatStaysWhateverComesAndGoes) {
  for (int i = 0; i < 100; ++i) Do({"SET", store::Cat("stays", i), "v"});
  std::set<std::string> found;
  std::string cursor = "0";
  int calls = 0;
  do {
    const store::ReplyPtr reply = model.Execute(1, {"SCAN", cursor, "MATCH", "stays*", "COUNT", "7"});
    const store::ReplyArray parts(*reply);
    const store::ReplyArray keys(*parts.At(1));
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(found.emplace(*keys.String(i)).second) << *keys.String(i);
    }
    cursor = *parts.String(0);
    Do({"SET", store::Cat("comes", ++calls), "v"});
    Do({"DEL", store::Cat("comes", calls - 1)});
  } while (cursor != "0");
  EXPECT_EQ(found.size(), 100u);
  EXPECT_GT(calls, 10);
}

TEST_F(CommandsTest, OneStarAloneFindsTheEmptyKey) {
  Do({"SET", "", "v"});
  EXPECT_EQ(Do({"SCAN", "0", "MATCH", "*"}), R"(["0", [""]])");
  for (const char* pattern : {"**", "***", "?*"}) EXPECT_EQ(Do({"SCAN", "0", "MATCH", pattern}), R"(["0", []])");
}

TEST_F(CommandsTest, AScanRefusesWhatItDoesNotUnderstand) {
  EXPECT_EQ(Do({"SCAN", "0", "MATCH", "none"}), R"(["0", []])");
  EXPECT_EQ(Do({"SCAN", "x"}), "-ERR invalid cursor");
  EXPECT_EQ(Do({"SCAN", "0", "COUNT", "0"}), "-ERR syntax error");
  EXPECT_EQ(Do({"SCAN", "0", "COUNT", "x"}), "-ERR value is not an integer or out of range");
  EXPECT_EQ(Do({"SCAN", "0", "COUNT"}), "-ERR syntax error");
  EXPECT_EQ(Do({"SCAN", "0", "WHAT", "1"}), "-ERR syntax error");
}

TEST_F(CommandsTest, EachTypeRefusesTheCommandsOfOthers) {
  Do({"SET", "string", "v"});
  Do({"LPUSH", "list", "v"});
  Do({"SADD", "set", "v"});
  Do({"ZADD", "zset", "1", "v"});
  Do({"HSET", "hash", "f", "v"});
  for (const std::string_view key : {"string", "list", "set", "zset", "hash"}) {
    EXPECT_EQ(Do({"TYPE", key}), store::Cat("+", key));
    EXPECT_EQ(Do({"GET", key}) == kWrongType, key != "string");
    EXPECT_EQ(Do({"LPUSH", key, "v"}) == kWrongType, key != "list");
    EXPECT_EQ(Do({"SADD", key, "v"}) == kWrongType, key != "set");
    EXPECT_EQ(Do({"ZCARD", key}) == kWrongType, key != "zset");
    EXPECT_EQ(Do({"ZADD", key, "1", "v"}) == kWrongType, key != "zset");
    EXPECT_EQ(Do({"HLEN", key}) == kWrongType, key != "hash");
    EXPECT_EQ(Do({"HMGET", key, "f"}) == kWrongType, key != "hash");
  }
  EXPECT_EQ(Do({"SET", "list", "v"}), "+OK");
}

TEST_F(CommandsTest, UnknownCommandsAndWrongCountsAreErrors) {
  EXPECT_EQ(Do({"NOPE", "a", "b"}), "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' ");
  EXPECT_EQ(Do({"GET"}), "-ERR wrong number of arguments for 'get' command");
  EXPECT_EQ(Do({"GET", "a", "b"}), "-ERR wrong number of arguments for 'get' command");
}

TEST_F(CommandsTest, SubscribersHearWhatIsPublished) {
  EXPECT_EQ(DoAs(7, {"SUBSCRIBE", "c"}), R"(["subscribe", "c", 1])");
  EXPECT_EQ(DoAs(5, {"SUBSCRIBE", "c"}), R"(["subscribe", "c", 1])");
  EXPECT_EQ(DoAs(5, {"SUBSCRIBE", "d"}), R"(["subscribe", "d", 2])");
  EXPECT_EQ(DoAs(5, {"SUBSCRIBE", "d"}), R"(["subscribe", "d", 2])");
  EXPECT_EQ(Do({"PUBLISH", "c", "hi"}), "2");
  EXPECT_EQ(Eval("return redis.call('PUBLISH', 'd', 'ho')"), "1");
  EXPECT_THAT(messages, ElementsAre("7 c hi", "5 c hi", "5 d ho"));
  EXPECT_THAT(model.Subscribers("c"), ElementsAre(7, 5));
  EXPECT_EQ(
      DoAs(5, {"GET", "k"}),
      "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
      "context");
  EXPECT_EQ(DoAs(5, {"PING"}), R"(["pong", ""])");
  EXPECT_EQ(DoAs(5, {"UNSUBSCRIBE", "d"}), R"(["unsubscribe", "d", 1])");
  model.Disconnect(7);
  EXPECT_EQ(DoAs(5, {"UNSUBSCRIBE", "c"}), R"(["unsubscribe", "c", 0])");
  EXPECT_EQ(Do({"PUBLISH", "c", "hi"}), "0");
  EXPECT_EQ(DoAs(5, {"PING"}), "+PONG");
}

TEST_F(CommandsTest, AServerTellsAboutItself) {
  EXPECT_EQ(Do({"CLIENT", "SETNAME", "me"}), "+OK");
  EXPECT_EQ(Do({"CONFIG", "GET", "save"}), R"(["save", ""])");
  EXPECT_EQ(Do({"INFO", "memory"}), R"("# Memory\x0d\x0amaxmemory:0\x0d\x0amaxmemory_policy:noeviction\x0d\x0a")");
  EXPECT_THAT(Do({"INFO", "replication"}), testing::StartsWith(R"("# Replication\x0d\x0arole:master\x0d\x0acon)"));
  EXPECT_THAT(Do({"INFO", "replication"}), testing::HasSubstr(R"(\x0asecond_repl_offset:-1\x0d)"));
  model.BecomeReplica("there", 7);
  EXPECT_THAT(Do({"INFO", "replication"}),
              testing::HasSubstr(R"(\x0d\x0arole:slave\x0d\x0amaster_host:there\x0d\x0amaster_port:7\x0d\x0a)"));
  EXPECT_THAT(Do({"ROLE"}), testing::StartsWith(R"(["slave", "there", 7, )"));
}

TEST_F(CommandsTest, AServerTellsHowItKeepsItsDataAndSinceWhenItRuns) {
  EXPECT_EQ(Do({"CONFIG", "GET", "*append*"}),
            R"(["appendfsync", "everysec", "appendonly", "no", "no-appendfsync-on-rewrite", "no"])");
  model.SetPersistence(true, "always");
  EXPECT_EQ(Do({"CONFIG", "GET", "*append*"}),
            R"(["appendfsync", "always", "appendonly", "yes", "no-appendfsync-on-rewrite", "no"])");
  EXPECT_THAT(Do({"INFO", "persistence"}), testing::HasSubstr(R"(aof_enabled:1\x0d)"));
  model.SetPersistence(true, "always", true);
  EXPECT_EQ(Do({"CONFIG", "GET", "*append*"}),
            R"(["appendfsync", "always", "appendonly", "yes", "no-appendfsync-on-rewrite", "yes"])");
  model.SetClock(kStart);
  model.SetClock(kStart + 7'000'000);
  EXPECT_THAT(Do({"INFO", "server"}), testing::HasSubstr(R"(uptime_in_seconds:7\x0d)"));
  model.Restart();
  model.SetClock(kStart + 9'000'000);
  EXPECT_THAT(Do({"INFO", "server"}), testing::HasSubstr(R"(uptime_in_seconds:0\x0d)"));
}

TEST_F(CommandsTest, ARestartedPrimaryDoesNotSayThatItWasPromoted) {
  model.BecomeReplica("there", 7);
  model.Promote();
  EXPECT_THAT(Do({"INFO", "replication"}), testing::HasSubstr(R"(\x0asecond_repl_offset:1\x0d)"));
  model.Restart();
  EXPECT_THAT(Do({"INFO", "replication"}), testing::HasSubstr(R"(\x0asecond_repl_offset:-1\x0d)"));
}

TEST_F(CommandsTest, EachLifeOfAServerHasARunIdOfItsOwn) {
  RedisModel other(kStart, 1);
  const auto run_id = [](RedisModel& server) {
    const std::string info = ReplyText(*server.Execute(1, {"INFO", "server"}));
    return info.substr(info.find("run_id:") + 7, 40);
  };
  const std::string first = run_id(model);
  EXPECT_EQ(first, run_id(model));
  EXPECT_NE(first, run_id(other));
  model.Restart();
  EXPECT_NE(first, run_id(model));
}

TEST_F(CommandsTest, AServerThatLoadsItsDataSaysSo) {
  model.RefuseAll("LOADING Redis is loading the dataset in memory");
  EXPECT_EQ(Do({"INFO", "persistence"}), R"("# Persistence\x0d\x0aloading:1\x0d\x0aaof_enabled:0\x0d\x0a")");
  EXPECT_EQ(Do({"CLIENT", "SETNAME", "me"}), "+OK");
  EXPECT_EQ(Do({"PUBLISH", "c", "hi"}), "0");
  EXPECT_EQ(Do({"GET", "k"}), "-LOADING Redis is loading the dataset in memory");
  EXPECT_EQ(Do({"SCRIPT", "LOAD", "return 1"}), "-LOADING Redis is loading the dataset in memory");
  model.RefuseAll("BUSY Redis is busy running a script.");
  EXPECT_EQ(Do({"INFO"}), "-BUSY Redis is busy running a script.");
}

TEST_F(CommandsTest, ChangesAreReportedInOrder) {
  Do({"SET", "a", "1"});
  Do({"SET", "a", "2", "NX"});
  Do({"PEXPIRE", "a", "10"});
  Do({"GET", "a"});
  Do({"ZADD", "z", "1", "m"});
  Do({"ZADD", "z", "1", "m"});
  Do({"ZREM", "z", "x"});
  Do({"ZREM", "z", "m"});
  Do({"DEL", "a", "none"});
  Do({"FLUSHALL"});
  EXPECT_THAT(changes, ElementsAre("written a", "written a", "written z", "deleted z", "deleted a", "flushed "));
}

TEST_F(CommandsTest, KeysAreListedWithTypeAndExpiry) {
  Do({"SET", "b", "v", "PX", "5"});
  Do({"LPUSH", "a", "v"});
  const auto keys = model.Keys();
  ASSERT_EQ(keys.size(), 2);
  EXPECT_EQ(keys[0].key, "a");
  EXPECT_EQ(keys[0].type, KeyType::kList);
  EXPECT_EQ(keys[0].expires_ms, std::nullopt);
  EXPECT_EQ(keys[1].key, "b");
  EXPECT_EQ(keys[1].type, KeyType::kString);
  EXPECT_EQ(keys[1].expires_ms, kStart / 1000 + 5);
}

TEST(ParseCommandTest, TakesOneCommandOffTheFront) {
  const std::string bytes = store::MakeCommand({"SET", "k", "a\r\nb"}) + store::MakeCommand({"PING"});
  std::string_view left = bytes;
  EXPECT_THAT(ParseCommand(left), ElementsAre("SET", "k", "a\r\nb"));
  EXPECT_THAT(ParseCommand(left), ElementsAre("PING"));
  EXPECT_EQ(left, "");
}

TEST(ParseCommandTest, LeavesWhatIsNotWhole) {
  const std::string bytes = store::MakeCommand({"GET", "key"});
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string_view left(bytes.data(), size);
    EXPECT_THAT(ParseCommand(left), ElementsAre()) << size;
    EXPECT_EQ(left.size(), size);
  }
  for (std::string_view bad : {"PING\r\n", "*1\r\n+OK\r\n", "*99999999\r\n", "*-1\r\n", "*1\r\n$4\r\nPINGxx"}) {
    EXPECT_THAT(ParseCommand(bad), ElementsAre());
  }
}

}  // namespace
}  // namespace distlock::sim
