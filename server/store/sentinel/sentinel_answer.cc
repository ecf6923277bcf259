// SPDX-License-Identifier: Apache-2.0
#include "store/sentinel/sentinel_answer.h"

#include <map>
#include <string_view>
#include <utility>

#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr size_t kMaxListed = 64;  // entries of one list that are read

// An array of names and values in turns.
class Fields {
 public:
  explicit Fields(const redisReply& reply) {
    const ReplyArray array(reply);
    for (size_t i = 0; i + 1 < array.size(); i += 2) {
      const auto name = array.String(i);
      const auto value = array.String(i + 1);
      if (name && value) fields_.emplace(*name, *value);
    }
  }
  std::string_view Get(std::string_view name) const {
    const auto found = fields_.find(name);
    return found == fields_.end() ? std::string_view() : found->second;
  }
  int Int(std::string_view name, int otherwise) const {
    int value = 0;
    return ReadInt(Get(name), &value) ? value : otherwise;
  }
  bool Flag(std::string_view flag) const {
    for (const std::string_view one : Split(Get("flags"), ",")) {
      if (one == flag) return true;
    }
    return false;
  }

 private:
  std::map<std::string_view, std::string_view> fields_;
};

std::optional<ServerAddress> AddressOf(std::string_view host, std::string_view port) {
  ServerAddress address{.host = std::string(host)};
  const bool good = !host.empty() && host.size() <= 255 && host.find('\0') == std::string_view::npos;
  if (!good || !ReadInt(port, &address.port) || address.port < 1 || address.port > 65535) return std::nullopt;
  return address;
}

template <typename Read>
void ForEach(const redisReply& reply, Read read) {
  const ReplyArray list(reply);
  for (size_t i = 0; i < list.size() && i < kMaxListed; ++i) read(Fields(*list.At(i)));
}

}  // namespace

bool ReadMaster(const redisReply& reply, SentinelReport& report, SetFacts& facts) {
  const Fields fields(reply);
  const auto epoch = ParseNumber(fields.Get("config-epoch"));
  const auto address = AddressOf(fields.Get("ip"), fields.Get("port"));
  if (!epoch || !address) return false;
  report.epoch = *epoch;
  report.primary = *address;
  facts.replica_count = fields.Int("num-slaves", 0);
  facts.quorum = fields.Int("quorum", 0);
  facts.down_after = std::chrono::milliseconds(fields.Int("down-after-milliseconds", 0));
  facts.failing_over = fields.Flag("failover_in_progress");
  return true;
}

std::optional<ServerAddress> ReadAddress(const redisReply& reply) {
  const ReplyArray pair(reply);
  if (pair.size() != 2) return std::nullopt;
  return AddressOf(pair.String(0).value_or(""), pair.String(1).value_or(""));
}

std::vector<ServerAddress> ReadPeers(const redisReply& reply) {
  std::vector<ServerAddress> peers;
  ForEach(reply, [&](const Fields& fields) {
    if (auto address = AddressOf(fields.Get("ip"), fields.Get("port"))) peers.push_back(*std::move(address));
  });
  return peers;
}

std::vector<ReplicaFacts> ReadReplicas(const redisReply& reply) {
  std::vector<ReplicaFacts> replicas;
  ForEach(reply, [&](const Fields& fields) {
    auto address = AddressOf(fields.Get("ip"), fields.Get("port"));
    if (!address) return;
    auto follows = AddressOf(fields.Get("master-host"), fields.Get("master-port"));
    replicas.push_back({.address = *std::move(address),
                        .priority = fields.Int("slave-priority", 100),
                        .follows = follows.value_or(ServerAddress{}),
                        .up = !fields.Flag("s_down") && !fields.Flag("disconnected")});
  });
  return replicas;
}

std::vector<std::string> ReadNames(const redisReply& reply) {
  std::vector<std::string> names;
  ForEach(reply, [&](const Fields& fields) {
    if (const auto name = fields.Get("name"); !name.empty()) names.emplace_back(name);
  });
  return names;
}

}  // namespace distlock::store
