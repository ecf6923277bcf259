// SPDX-License-Identifier: Apache-2.0
#include "redis/twins.h"

#include <algorithm>

#include "absl/container/btree_set.h"
#include "redis/reply_text.h"
#include "store/redis/script_caller.h"
#include "store/redlock/vote_codec.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

constexpr int kMainClient = 100;

struct Wording {
  std::string_view redis;
  std::string_view valkey;
};
// The first words, which clients rely on, are the same.
constexpr Wording kWordings[] = {
    {"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT No matching script."},
    {"ERR Unknown Redis command called", "ERR Unknown command called"},
    {"ERR Wrong number of args calling Redis command", "ERR Wrong number of args calling command"},
    {"ERR Please specify at least one argument for this redis lib call",
     "ERR Please specify at least one argument for this call"},
    {"ERR Lua redis lib command arguments must be strings or integers",
     "ERR Command arguments must be strings or integers"},
};

std::string CommandText(const Argv& argv) {
  std::string text;
  for (const std::string_view word : argv) store::Append(text, text.empty() ? "" : " ", Quoted(word.substr(0, 200)));
  return text;
}

std::string TextOf(const redisReply* reply) { return reply == nullptr ? "no reply" : ReplyText(*reply); }

// The elements of an array, in groups of `step`, sorted, because the server's order depends on its tables.
std::string SortedText(const redisReply* reply, size_t step) {
  if (reply == nullptr || reply->type != REDIS_REPLY_ARRAY) return TextOf(reply);
  std::vector<std::string> parts;
  for (size_t i = 0; i < reply->elements; ++i) {
    if (i % step == 0) parts.emplace_back();
    store::Append(parts.back(), " ", ReplyText(*reply->element[i]));
  }
  std::sort(parts.begin(), parts.end());
  return store::Join(parts, ",");
}

std::string_view ReadingCommand(KeyType type) {
  switch (type) {
    case KeyType::kList:
      return "LRANGE";
    case KeyType::kSet:
      return "SMEMBERS";
    case KeyType::kZset:
      return "ZRANGE";
    case KeyType::kHash:
      return "HGETALL";
    default:
      return "GET";
  }
}

Argv ReadAll(std::string_view key, KeyType type) {
  Argv argv{ReadingCommand(type), key};
  if (type == KeyType::kList || type == KeyType::kZset) argv.insert(argv.end(), {"0", "-1"});
  if (type == KeyType::kZset) argv.push_back("WITHSCORES");
  return argv;
}

}  // namespace

Twins::Twins(const std::string& binary)
    : valkey_(store::Contains(binary, "valkey")), real_(binary), main_(real_.socket()) {}

void Twins::Reset() {
  for (int i = 0; i < kListeners; ++i) Hang(i);
  if (!main_.good()) main_ = Connection(real_.socket());
  messages_.clear();
  difference_.clear();
  model_ = std::make_unique<RedisModel>(kStart);
  model_->OnMessage([this](int client, std::string_view channel, std::string_view payload) {
    messages_.push_back({client, store::Cat("[\"message\", ", Quoted(channel), ", ", Quoted(payload), "]")});
  });
  real_.SetClock(kStart);
  std::vector<Argv> commands = {{"REPLICAOF", "NO", "ONE"},
                                {"CONFIG", "SET", "maxmemory", "0"},
                                {"CONFIG", "SET", "min-replicas-to-write", "0"},
                                {"FLUSHALL"}};
  for (const auto* scripts : {&store::AllScripts(), &store::RedlockScripts()}) {
    for (const lua::ScriptSource* script : *scripts) {
      commands.push_back({"SCRIPT", "LOAD", script->body});
      model_->Execute(kMainClient, commands.back());
    }
  }
  for (const Argv& command : commands) main_.Send(command);
  for (const Argv& command : commands) {
    const auto reply = main_.Receive();
    if (reply == nullptr || store::IsError(*reply)) Differ(CommandText(command), TextOf(reply.get()), "success");
  }
}

void Twins::Do(const Argv& argv) {
  const auto real = main_.Do(argv);
  const auto modelled = model_->Execute(kMainClient, argv);
  Compare(argv, real.get(), *modelled);
  CompareMessages(argv);
  Count(argv, *modelled);
}

void Twins::Listen(int listener, std::string_view channel) {
  auto& connection = listeners_[static_cast<size_t>(listener)];
  if (!connection) connection.emplace(real_.socket());
  const Argv argv{"SUBSCRIBE", channel};
  const auto real = connection->Do(argv);
  Compare(argv, real.get(), *model_->Execute(listener, argv));
}

void Twins::Unlisten(int listener, std::string_view channel) {
  const std::vector<int> subscribed = model_->Subscribers(channel);
  if (std::find(subscribed.begin(), subscribed.end(), listener) == subscribed.end()) return;
  auto& connection = listeners_[static_cast<size_t>(listener)];
  const Argv argv{"UNSUBSCRIBE", channel};
  const auto real = connection->Do(argv);
  Compare(argv, real.get(), *model_->Execute(listener, argv));
}

// The server removes the subscriptions before it closes the connection, so at the end of the stream they are gone.
void Twins::Hang(int listener) {
  auto& connection = listeners_[static_cast<size_t>(listener)];
  if (!connection) return;
  connection->Send({"QUIT"});
  while (connection->Receive() != nullptr) {
  }
  connection.reset();
  model_->Disconnect(listener);
}

void Twins::Prepare(uint8_t choice) {
  static const Argv kQuestions[] = {
      {"INFO"},
      {"info", "replication"},
      {"INFO", "Server", "memory"},
      {"INFO", "none"},
      {"CLIENT", "SETNAME", "distlockd"},
      {"client", "setname", "two words"},
      {"CLIENT", "SETNAME"},
      {"CONFIG", "GET", "save"},
      {"TIME"},
  };
  const Argv& question = kQuestions[choice % std::size(kQuestions)];
  if (store::Contains("INFO info", question[0])) return CompareInfo(question);
  Do(question);
}

// The model has fewer fields. Version, ids and what became of earlier sequences differ between servers, and Valkey has
// another name for its mode.
void Twins::CompareInfo(const Argv& argv) {
  const auto real = main_.Do(argv);
  const auto modelled = model_->Execute(kMainClient, argv);
  ++commands_;
  ++seen_["INFO"];
  const std::string all = store::Cat("\r\n", real == nullptr ? "" : store::Text(*real));
  for (const std::string_view line : store::Split(store::Text(*modelled), "\n")) {
    const auto [field, value] = store::Cut(line, ':');
    const bool own = store::Contains("redis_version run_id uptime_in_seconds master_replid second_repl_offset", field);
    const std::string_view name = valkey_ && field == "redis_mode" ? "server_mode" : field;
    const std::string wanted = own ? store::Cat("\r\n", field, ":") : store::Cat("\r\n", name, ":", value, "\n");
    if (!value.empty() && !store::Contains(all, wanted)) Differ(CommandText(argv), all, line);
  }
}

void Twins::MoveClock(int64_t by_us) {
  model_->SetClock(model_->now_us() + by_us);
  real_.SetClock(model_->now_us());
}

void Twins::LimitMemory(bool on) {
  Administer({"CONFIG", "SET", "maxmemory", on ? "1" : "0"});
  model_->SetMaxMemory(on ? 1 : 0);
}

// The primary's address is never served, and the replica serves its present data.
void Twins::SetReplica(bool on) {
  Administer(on ? Argv{"REPLICAOF", "127.0.0.1", "1"} : Argv{"REPLICAOF", "NO", "ONE"});
  if (on) {
    model_->BecomeReplica();
  } else {
    model_->Promote();
  }
}

void Twins::WantReplicas(bool on) {
  Administer({"CONFIG", "SET", "min-replicas-to-write", on ? "1" : "0"});
  model_->RefuseWrites(on ? "NOREPLICAS Not enough good replicas to write." : "");
}

void Twins::CompareData() {
  CompareSorted({{"KEYS", "*"}});
  if (!difference_.empty()) return;
  std::vector<std::pair<std::string, KeyType>> keys;
  for (const KeyFacts& key : model_->Keys()) keys.emplace_back(key.key, key.type);
  std::vector<Argv> commands;
  for (const auto& [key, type] : keys) {
    commands.push_back({"TYPE", key});
    commands.push_back({"PTTL", key});
    commands.push_back(ReadAll(key, type));
  }
  CompareSorted(commands);
}

void Twins::CompareScan(std::string_view pattern) {
  ++commands_;
  ++seen_["SCAN"];
  const std::string real = ScanAll(pattern, [this](const Argv& argv) { return main_.Do(argv); });
  const std::string modelled =
      ScanAll(pattern, [this](const Argv& argv) { return model_->Execute(kMainClient, argv); });
  if (real != modelled) Differ(store::Cat("SCAN MATCH ", Quoted(pattern)), real, modelled);
}

// A server may name a key more than once.
std::string Twins::ScanAll(std::string_view pattern, const std::function<store::ReplyPtr(const Argv&)>& run) {
  absl::btree_set<std::string> found;
  std::string cursor = "0";
  do {
    const store::ReplyPtr reply = run({"SCAN", cursor, "MATCH", pattern, "COUNT", "3"});
    if (reply == nullptr || reply->type != REDIS_REPLY_ARRAY) return TextOf(reply.get());
    const store::ReplyArray parts(*reply);
    cursor = parts.String(0).value_or("0");
    const store::ReplyArray keys(*parts.At(1));
    for (size_t i = 0; i < keys.size(); ++i) found.insert(Quoted(keys.String(i).value_or("")));
  } while (cursor != "0");
  return store::Join({found.begin(), found.end()}, ", ");
}

void Twins::CompareSilence() {
  for (int i = 0; i < kListeners; ++i) {
    auto& connection = listeners_[static_cast<size_t>(i)];
    if (!connection) continue;
    const Argv ping{"PING"};
    const auto real = connection->Do(ping);
    Compare(ping, real.get(), *model_->Execute(i, ping));
  }
}

void Twins::Administer(const Argv& argv) {
  const auto reply = main_.Do(argv);
  if (reply == nullptr || store::IsError(*reply)) Differ(CommandText(argv), TextOf(reply.get()), "success");
}

void Twins::Compare(const Argv& argv, const redisReply* real, const redisReply& modelled) {
  ++commands_;
  const std::string expected = TextOf(real);
  const std::string got = ReplyText(modelled);
  if (!Same(expected, got)) Differ(CommandText(argv), expected, got);
}

bool Twins::Same(const std::string& real, const std::string& modelled) const {
  if (real == modelled) return true;
  return valkey_ && std::any_of(std::begin(kWordings), std::end(kWordings), [&](const Wording& wording) {
           const size_t at = modelled.find(wording.redis);
           return at != std::string::npos &&
                  real == store::Cat(std::string_view(modelled).substr(0, at), wording.valkey,
                                     std::string_view(modelled).substr(at + wording.redis.size()));
         });
}

void Twins::CompareMessages(const Argv& argv) {
  for (const Message& message : std::exchange(messages_, {})) {
    ++seen_["message"];
    auto& connection = listeners_[static_cast<size_t>(message.listener)];
    const std::string real = connection ? TextOf(connection->Receive().get()) : "no connection";
    if (real != message.text) Differ(store::Cat("a message of ", CommandText(argv)), real, message.text);
  }
}

void Twins::CompareSorted(const std::vector<Argv>& commands) {
  for (const Argv& command : commands) main_.Send(command);
  for (const Argv& command : commands) {
    const size_t step = command[0] == "HGETALL" || command[0] == "ZRANGE" ? 2 : 1;
    const bool ordered = command[0] == "LRANGE" || command[0] == "ZRANGE";
    const auto real = main_.Receive();
    const auto modelled = model_->Execute(kMainClient, command);
    ++commands_;
    const std::string expected = ordered ? TextOf(real.get()) : SortedText(real.get(), step);
    const std::string got = ordered ? ReplyText(*modelled) : SortedText(modelled.get(), step);
    if (expected != got) Differ(CommandText(command), expected, got);
  }
}

void Twins::Differ(std::string_view what, std::string_view real, std::string_view modelled) {
  if (!difference_.empty()) return;
  difference_ = store::Cat(what, "\n  the server: ", real, "\n  the model:  ", modelled);
}

void Twins::Count(const Argv& argv, const redisReply& reply) {
  if (store::IsError(reply)) {
    ++seen_[store::Cat("-", store::Cut(store::Text(reply), ' ').first)];
  } else if (argv[0] == "EVALSHA") {
    ++seen_[store::Cat("reply ", store::ReplyArray(reply).Integer(0).value_or(0))];
  }
}

}  // namespace distlock::sim
