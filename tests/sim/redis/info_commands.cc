// SPDX-License-Identifier: Apache-2.0
//
// The questions about a server that a client asks before it uses it.
#include "redis/server.h"
#include "store/text.h"

namespace distlock::sim::commands {
namespace {

using store::Append;

constexpr std::string_view kVersion = "7.0.15";

// The sections of numbers are shown only to who asks for them.
bool WantsNumbers(const Call& call, std::string_view section) {
  return call.argv.size() == 2 && SameWord(call.arg(1), section);
}

bool Wants(const Call& call, std::string_view section) {
  if (call.argv.size() == 1) return true;
  for (const std::string_view word : call.argv.subspan(1)) {
    if (SameWord(word, section) || SameWord(word, "all") || SameWord(word, "everything") || SameWord(word, "default")) {
      return true;
    }
  }
  return false;
}

// "ERR ..." for a subcommand with too few or too many words.
std::string WrongWords(std::string_view command) {
  return store::Cat("ERR wrong number of arguments for '", command, "' command");
}

}  // namespace

// A few of the fields, with the values of a real server in the same state.
void Info(Call& call) {
  const Server& server = call.server;
  std::string text;
  const auto section = [&](std::string_view title) { Append(text, text.empty() ? "" : "\r\n", "# ", title, "\r\n"); };
  const auto field = [&](std::string_view name, std::string_view value) { Append(text, name, ":", value, "\r\n"); };
  if (Wants(call, "server")) {
    section("Server");
    field("redis_version", kVersion);
    field("redis_mode", call.server.may_script_run ? "cluster" : "standalone");
    field("run_id", server.RunId());
    // Seconds of its clock, as Redis counts them.
    const int64_t started_us = server.started_us.value_or(server.keys.now_us);
    field("uptime_in_seconds", store::Cat(server.keys.now_us / 1'000'000 - started_us / 1'000'000));
  }
  if (Wants(call, "memory")) {
    section("Memory");
    field("maxmemory", store::Cat(server.max_memory));
    field("maxmemory_policy", "noeviction");
  }
  if (Wants(call, "persistence")) {
    section("Persistence");
    field("loading", server.loading() ? "1" : "0");
    field("aof_enabled", server.appends ? "1" : "0");
  }
  if (WantsNumbers(call, "stats")) {
    section("Stats");
    field("evicted_keys", "0");
    field("total_net_repl_input_bytes", server.was_fed ? "1000" : "0");
  }
  if (WantsNumbers(call, "commandstats")) {
    section("Commandstats");
    field("cmdstat_info", "calls=1");
    if (server.was_emptied) field("cmdstat_flushall", "calls=1");
    if (server.was_replica) field("cmdstat_slaveof", "calls=1");
  }
  if (Wants(call, "replication")) {
    section("Replication");
    field("role", server.keys.replica ? "slave" : "master");
    if (server.keys.replica) {
      field("master_host", server.primary_host);
      field("master_port", store::Cat(server.primary_port));
    }
    field("connected_slaves", store::Cat(server.replicas.size()));
    for (size_t i = 0; i < server.replicas.size(); ++i) field(store::Cat("slave", i), server.replicas[i]);
    field("master_replid", server.ReplicationId());
    field("second_repl_offset", server.was_replica ? "1" : "-1");
  }
  call.reply.Bulk(text);
}

// The configuration of a server without snapshots.
void Config(Call& call) {
  const Server& server = call.server;
  std::vector<std::pair<std::string_view, std::string>> found;
  const bool get = SameWord(call.arg(1), "get") && call.argv.size() == 3;
  if (get && SameWord(call.arg(2), "save")) {
    found = {{"save", ""}};
  } else if (get && SameWord(call.arg(2), "min-replicas-*")) {
    found = {{"min-replicas-max-lag", store::Cat(server.max_lag_seconds)},
             {"min-replicas-to-write", store::Cat(server.min_replicas)}};
  } else if (get && SameWord(call.arg(2), "*append*")) {
    found = {{"appendfsync", server.appends_to_disk},
             {"appendonly", server.appends ? "yes" : "no"},
             {"no-appendfsync-on-rewrite", server.rewrites_unsynced ? "yes" : "no"}};
  } else {
    return call.reply.Error("ERR the model knows no CONFIG but GET save, min-replicas-* and *append*");
  }
  call.reply.Array(2 * found.size());
  for (const auto& [name, value] : found) {
    call.reply.Bulk(name);
    call.reply.Bulk(value);
  }
}

void Client(Call& call) {
  if (!SameWord(call.arg(1), "setname")) {
    return call.reply.Error(store::Cat("ERR unknown subcommand '", call.arg(1), "'. Try CLIENT HELP."));
  }
  if (call.argv.size() != 3) return call.reply.Error(WrongWords("client|setname"));
  for (const char c : call.arg(2)) {
    if (c >= '!' && c <= '~') continue;
    return call.reply.Error("ERR Client names cannot contain spaces, newlines or special characters.");
  }
  call.reply.Status("OK");
}

}  // namespace distlock::sim::commands
