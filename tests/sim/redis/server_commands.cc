// SPDX-License-Identifier: Apache-2.0
#include "redis/redis_model.h"
#include "redis/server.h"
#include "store/text.h"

namespace distlock::sim::commands {
namespace {

constexpr size_t kSha1Digits = 40;
constexpr std::string_view kNoScriptFound = "NOSCRIPT No matching script. Please use EVAL.";

void ReplySubscription(Call& call, std::string_view what, std::string_view channel) {
  call.reply.Array(3);
  call.reply.Bulk(what);
  call.reply.Bulk(channel);
  call.reply.Integer(call.server.CountSubscriptions(call.client));
}

const Script* LoadScript(Call& call, std::string_view text) {
  std::string error;
  const Script* script = ScriptEngine::OfThisThread().Compile(text, error);
  if (script == nullptr) {
    call.reply.Error(store::Cat("ERR Error compiling script (new function): ", error));
  } else {
    call.server.AddScript(script);
  }
  return script;
}

// Reads the number of keys, argv[2].
bool ReadKeyCount(Call& call, size_t& count) {
  int64_t keys = 0;
  if (!ReadInteger(call, call.arg(2), keys)) return false;
  if (keys > static_cast<int64_t>(call.argv.size()) - 3) {
    call.reply.Error("ERR Number of keys can't be greater than number of args");
  } else if (keys < 0) {
    call.reply.Error("ERR Number of keys can't be negative");
  } else {
    count = static_cast<size_t>(keys);
    return true;
  }
  return false;
}

void Run(Call& call, const Script& script, size_t key_count) {
  Server& server = call.server;
  const auto run_command = [&](Words argv, ReplySink& reply) { RunForScript(server, call.client, argv, reply); };
  server.script_wrote = false;
  ScriptEngine::OfThisThread().Run(script, call.argv.subspan(3, key_count), call.argv.subspan(3 + key_count),
                                   run_command, call.reply);
}

}  // namespace

void Ping(Call& call) {
  if (call.argv.size() > 2) return call.reply.Error("ERR wrong number of arguments for 'ping' command");
  const std::string_view text = call.argv.size() == 2 ? call.arg(1) : std::string_view();
  if (call.server.CountSubscriptions(call.client) > 0) {
    call.reply.Array(2);
    call.reply.Bulk("pong");
    call.reply.Bulk(text);
  } else if (call.argv.size() == 2) {
    call.reply.Bulk(text);
  } else {
    call.reply.Status("PONG");
  }
}

void Time(Call& call) {
  call.reply.Array(2);
  call.reply.Bulk(store::Cat(call.keys().now_us / 1'000'000));
  call.reply.Bulk(store::Cat(call.keys().now_us % 1'000'000));
}

// Without offsets, because the model has no replication log.
void Role(Call& call) {
  if (!call.keys().replica) {
    call.reply.Array(3);
    call.reply.Bulk("master");
    call.reply.Integer(0);
    return call.reply.Array(0);
  }
  call.reply.Array(5);
  call.reply.Bulk("slave");
  call.reply.Bulk(call.server.primary_host);
  call.reply.Integer(call.server.primary_port);
  call.reply.Bulk("connected");
  call.reply.Integer(0);
}

void Publish(Call& call) {
  call.keys().Record(call.argv);
  call.reply.Integer(call.server.Publish(call.arg(1), call.arg(2)));
}

void SPublish(Call& call) {
  call.reply.Integer(call.server.Publish(store::Cat(std::string(1, kShardChannel), call.arg(1)), call.arg(2)));
}

void SSubscribe(Call& call) {
  if (call.argv.size() != 2) return call.reply.Error("ERR the model takes one channel a call");
  const std::string channel = store::Cat(std::string(1, kShardChannel), call.arg(1));
  auto& all = call.server.subscriptions;
  const bool known = std::any_of(all.begin(), all.end(),
                                 [&](const auto& one) { return one.first == channel && one.second == call.client; });
  if (!known) all.emplace_back(channel, call.client);
  ReplySubscription(call, "ssubscribe", call.arg(1));
}

void Subscribe(Call& call) {
  if (call.argv.size() != 2) return call.reply.Error("ERR the model takes one channel a call");
  const std::string_view channel = call.arg(1);
  auto& all = call.server.subscriptions;
  const bool known = std::any_of(all.begin(), all.end(),
                                 [&](const auto& one) { return one.first == channel && one.second == call.client; });
  if (!known) all.emplace_back(channel, call.client);
  ReplySubscription(call, "subscribe", channel);
}

void Unsubscribe(Call& call) {
  if (call.argv.size() != 2) return call.reply.Error("ERR the model takes one channel a call");
  const std::string_view channel = call.arg(1);
  std::erase_if(call.server.subscriptions,
                [&](const auto& one) { return one.first == channel && one.second == call.client; });
  ReplySubscription(call, "unsubscribe", channel);
}

void ScriptCommand(Call& call) {
  const std::string_view what = call.arg(1);
  const size_t words = call.argv.size();
  if (SameWord(what, "load") && words == 3) {
    if (const Script* script = LoadScript(call, call.arg(2))) call.reply.Bulk(script->sha1);
  } else if (SameWord(what, "flush") && (words == 2 || words == 3)) {
    call.server.scripts.clear();
    call.reply.Status("OK");
  } else if (SameWord(what, "exists") && words > 2) {
    call.reply.Array(words - 2);
    for (const std::string_view sha1 : call.argv.subspan(2)) {
      call.reply.Integer(call.server.FindScript(sha1) == nullptr ? 0 : 1);
    }
  } else {
    call.reply.Error(store::Cat("ERR unknown subcommand '", what, "'. Try SCRIPT HELP."));
  }
}

void Eval(Call& call) {
  size_t key_count = 0;
  if (!ReadKeyCount(call, key_count)) return;
  if (const Script* script = LoadScript(call, call.arg(1))) Run(call, *script, key_count);
}

void EvalSha(Call& call) {
  size_t key_count = 0;
  if (call.arg(1).size() != kSha1Digits) return call.reply.Error(kNoScriptFound);
  if (!ReadKeyCount(call, key_count)) return;
  const Script* script = call.server.FindScript(call.arg(1));
  if (script == nullptr) return call.reply.Error(kNoScriptFound);
  Run(call, *script, key_count);
}

}  // namespace distlock::sim::commands
