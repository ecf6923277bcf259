// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "redis/server.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

using store::Cat;

constexpr size_t kLongestName = 16;
constexpr std::string_view kFull = "OOM command not allowed when used memory > 'maxmemory'.";
constexpr std::string_view kReadOnly = "READONLY You can't write against a read only replica.";

constexpr uint8_t kReads = 0;
constexpr uint8_t kWrites = Command::kWrites;
constexpr uint8_t kGrows = Command::kWrites | Command::kGrows;
constexpr uint8_t kNoScript = Command::kNoScript;
constexpr uint8_t kLoading = Command::kLoading;

constexpr Command kCommands[] = {
    {"get", 2, kReads, commands::Get},
    {"mget", -2, kReads, commands::MGet},
    {"set", -3, kGrows, commands::Set},
    {"del", -2, kWrites, commands::Del},
    {"unlink", -2, kWrites, commands::Unlink},
    {"exists", -2, kReads, commands::Exists},
    {"type", 2, kReads, commands::Type},
    {"pexpire", -3, kWrites, commands::PExpire},
    {"pexpireat", -3, kWrites, commands::PExpireAt},
    {"pttl", 2, kReads, commands::PTtl},
    {"pexpiretime", 2, kReads, commands::PExpireTime},
    {"keys", 2, kReads, commands::Keys},
    {"scan", -2, kReads, commands::Scan},
    {"flushall", -1, kWrites, commands::FlushAll},
    {"zadd", -4, kGrows, commands::ZAdd},
    {"zrem", -3, kWrites, commands::ZRem},
    {"zrange", -4, kReads, commands::ZRange},
    {"zcard", 2, kReads, commands::ZCard},
    {"zrank", 3, kReads, commands::ZRank},
    {"zcount", 4, kReads, commands::ZCount},
    {"hexists", 3, kReads, commands::HExists},
    {"hset", -4, kGrows, commands::HSet},
    {"hget", 3, kReads, commands::HGet},
    {"hmget", -3, kReads, commands::HMGet},
    {"hdel", -3, kWrites, commands::HDel},
    {"hlen", 2, kReads, commands::HLen},
    {"hgetall", 2, kReads, commands::HGetAll},
    {"lpush", -3, kGrows, commands::LPush},
    {"lrange", 4, kReads, commands::LRange},
    {"sadd", -3, kGrows, commands::SAdd},
    {"smembers", 2, kReads, commands::SMembers},
    {"ping", -1, Command::kSubscribed, commands::Ping},
    {"time", 1, kReads | kLoading, commands::Time},
    {"role", 1, kNoScript | kLoading, commands::Role},
    {"publish", 3, kReads | kLoading, commands::Publish},
    {"spublish", 3, kReads | kLoading, commands::SPublish},
    {"ssubscribe", -2, kNoScript | kLoading | Command::kSubscribed, commands::SSubscribe},
    {"subscribe", -2, kNoScript | kLoading | Command::kSubscribed, commands::Subscribe},
    {"unsubscribe", -1, kNoScript | kLoading | Command::kSubscribed, commands::Unsubscribe},
    {"script", -2, kNoScript, commands::ScriptCommand},
    {"eval", -3, kNoScript, commands::Eval},
    {"evalsha", -3, kNoScript, commands::EvalSha},
    {"info", -1, kReads | kLoading, commands::Info},
    {"config", -2, kNoScript | kLoading, commands::Config},
    {"client", -2, kNoScript | kLoading, commands::Client},
};

absl::flat_hash_map<absl::string_view, const Command*> Index() {
  absl::flat_hash_map<absl::string_view, const Command*> index;
  for (const Command& command : kCommands) index.emplace(command.name, &command);
  return index;
}

bool WrongArity(const Command& command, size_t words) {
  const auto count = static_cast<int>(words);
  return command.arity > 0 ? count != command.arity : count < -command.arity;
}

// The error for a command that may not write now; "": it may.
std::string_view WriteRefusal(const Server& server, const Command& command) {
  if ((command.flags & Command::kWrites) == 0) return {};
  return server.keys.replica ? kReadOnly : std::string_view(server.refuse_writes);
}

std::string UnknownCommand(Words argv) {
  std::string text = Cat("ERR unknown command '", argv[0].substr(0, 128), "', with args beginning with: ");
  for (size_t i = 1; i < argv.size() && text.size() < 128; ++i) store::Append(text, "'", argv[i].substr(0, 128), "' ");
  return text;
}

std::string SubscribedOnly(std::string_view name) {
  return Cat("ERR Can't execute '", name,
             "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");
}

// The error for a client's command that may not run; "": it may.
std::string Refusal(const Server& server, int client, const Command* command, Words argv) {
  const bool loads = server.loading() && command != nullptr && (command->flags & kLoading) != 0;
  if (!server.refuse_all.empty() && !loads) return server.refuse_all;
  if (command == nullptr) return UnknownCommand(argv);
  if (WrongArity(*command, argv.size())) {
    return Cat("ERR wrong number of arguments for '", command->name, "' command");
  }
  if (server.full_at_start && (command->flags & Command::kGrows) != 0) return std::string(kFull);
  if (const std::string_view refusal = WriteRefusal(server, *command); !refusal.empty()) return std::string(refusal);
  if ((command->flags & Command::kSubscribed) == 0 && server.CountSubscriptions(client) > 0) {
    return SubscribedOnly(command->name);
  }
  return {};
}

}  // namespace

const Command* FindCommand(std::string_view name) {
  static const auto* const kIndex = new auto(Index());
  if (name.size() > kLongestName) return nullptr;
  std::array<char, kLongestName> lower{};
  for (size_t i = 0; i < name.size(); ++i) {
    lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] - 'A' + 'a') : name[i];
  }
  const auto found = kIndex->find(absl::string_view(lower.data(), name.size()));
  return found == kIndex->end() ? nullptr : found->second;
}

void RunForClient(Server& server, int client, Words argv, ReplySink& reply) {
  if (argv.empty()) return reply.Error("ERR Protocol error: an empty command");
  const Command* command = FindCommand(argv[0]);
  server.full_at_start = server.full();
  if (const std::string refusal = Refusal(server, client, command, argv); !refusal.empty()) return reply.Error(refusal);
  Call call{server, client, argv, reply};
  command->run(call);
  server.keys.Commit();
}

void RunForScript(Server& server, int client, Words argv, ReplySink& reply) {
  const Command* command = FindCommand(argv[0]);
  if (command == nullptr) return reply.Error("ERR Unknown Redis command called from script");
  if (WrongArity(*command, argv.size())) {
    return reply.Error("ERR Wrong number of args calling Redis command from script");
  }
  if ((command->flags & Command::kNoScript) != 0) {
    return reply.Error("ERR This Redis command is not allowed from script");
  }
  if (server.may_script_run && !server.may_script_run(argv)) {
    return reply.Error("ERR Script attempted to access a non local key in a cluster node");
  }
  // A script that has begun to write may finish.
  if (!server.script_wrote) {
    if (const std::string_view refusal = WriteRefusal(server, *command); !refusal.empty()) return reply.Error(refusal);
    if (server.full_at_start && (command->flags & Command::kGrows) != 0) return reply.Error(kFull);
  }
  if ((command->flags & Command::kWrites) != 0) server.script_wrote = true;
  Call call{server, client, argv, reply};
  command->run(call);
}

void RunEffect(Server& server, Words argv) {
  ReplyTree ignored;
  Call call{server, -1, argv, ignored};
  FindCommand(argv[0])->run(call);
}

bool ReadInteger(std::string_view text, int64_t& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return false;
  const std::string_view digits = text.substr(text.front() == '-' ? 1 : 0);
  return digits == "0" ? digits.size() == text.size() : digits.front() != '0';
}

bool ReadInteger(Call& call, std::string_view text, int64_t& value) {
  if (ReadInteger(text, value)) return true;
  call.reply.Error(kNoInteger);
  return false;
}

bool SameWord(std::string_view word, std::string_view lower) {
  if (word.size() != lower.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i] >= 'A' && word[i] <= 'Z' ? static_cast<char>(word[i] - 'A' + 'a') : word[i];
    if (c != lower[i]) return false;
  }
  return true;
}

}  // namespace distlock::sim
