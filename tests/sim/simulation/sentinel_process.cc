// SPDX-License-Identifier: Apache-2.0
#include "simulation/sentinel_process.h"

#include <utility>

#include "redis/redis_model.h"
#include "redis/reply_sink.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

constexpr const char* kSwitch = "+switch-master";

using Fields = std::vector<std::pair<std::string, std::string>>;

void Write(ReplyTree& reply, const Fields& fields) {
  reply.Array(2 * fields.size());
  for (const auto& [name, value] : fields) {
    reply.Bulk(name);
    reply.Bulk(value);
  }
}

}  // namespace

SentinelProcess::SentinelProcess(Env& env, int number, std::string host, int replicas)
    : Endpoint(env, Actor::Kind::kStore, "sentinel " + std::to_string(number)),
      host_(std::move(host)),
      replicas_(replicas) {
  Live();
}

void SentinelProcess::Tell(const std::string& primary_host, int primary_port, uint64_t epoch) {
  if (epoch <= epoch_) return;
  env_.Log([&] { return name() + " hears of primary " + primary_host + ", epoch " + std::to_string(epoch); });
  const std::string text =
      store::Cat(kPrimaryName, " ", primary_host_, " ", primary_port_, " ", primary_host, " ", primary_port);
  epoch_ = epoch;
  primary_host_ = primary_host;
  primary_port_ = primary_port;
  for (const auto& [connection, channel] : subscribed_) {
    if (const auto hear = hear_.find(connection); hear != hear_.end()) hear->second(channel, text);
  }
}

void SentinelProcess::Restart(Duration down) {
  HangUp(milliseconds(20));
  Die();
  hear_.clear();
  subscribed_.clear();
  env_.time.After(down, [this] { Live(); });
}

void SentinelProcess::Disconnect(int connection) {
  hear_.erase(connection);
  subscribed_.erase(connection);
}

void SentinelProcess::Run(int connection, std::string_view command, Answer answer) {
  answer(Reply(connection, command));
}

store::ReplyPtr SentinelProcess::Reply(int connection, std::string_view bytes) {
  const Argv argv = ParseCommand(bytes);
  const auto is = [&](std::string_view first, std::string_view second) {
    return argv.size() > 1 && argv[0] == first && argv[1] == second;
  };
  ReplyTree reply;
  if (!argv.empty() && argv[0] == "SUBSCRIBE") {
    subscribed_.emplace(connection, argv[1]);
    reply.Array(3);
    reply.Bulk("subscribe");
    reply.Bulk(argv[1]);
    reply.Integer(1);
  } else if (is("SENTINEL", "MASTER")) {
    Write(reply, {{"name", kPrimaryName},
                  {"ip", primary_host_},
                  {"port", store::Cat(primary_port_)},
                  {"flags", "master"},
                  {"num-slaves", store::Cat(replicas_)},
                  {"quorum", "2"},
                  {"down-after-milliseconds", "1000"},
                  {"config-epoch", store::Cat(epoch_)}});
  } else if (is("SENTINEL", "SENTINELS")) {
    reply.Array(peers_.size());
    for (const std::string& peer : peers_) Write(reply, {{"ip", peer}, {"port", store::Cat(kPort)}});
  } else if (is("SENTINEL", "REPLICAS")) {
    reply.Array(0);
  } else if (is("SENTINEL", "GET-MASTER-ADDR-BY-NAME")) {
    reply.Array(2);
    reply.Bulk(primary_host_);
    reply.Bulk(store::Cat(primary_port_));
  } else if (!argv.empty() && argv[0] == "PING") {
    if (subscribed_.contains(connection)) {
      reply.Array(2);
      reply.Bulk("pong");
      reply.Bulk("");
    } else {
      reply.Status("PONG");
    }
  } else if (is("CLIENT", "SETNAME")) {
    reply.Status("OK");
  } else {
    reply.Error("ERR the sentinel of the simulation does not know this command");
  }
  return reply.Take();
}

}  // namespace distlock::sim
