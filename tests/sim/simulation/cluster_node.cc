// SPDX-License-Identifier: Apache-2.0
#include "simulation/cluster_node.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "redis/reply_sink.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

store::ReplyPtr RefusalOf(std::string_view text) {
  ReplyTree reply;
  reply.Error(text);
  return reply.Take();
}

store::ReplyPtr TextReply(std::string_view text, bool status) {
  ReplyTree reply;
  status ? reply.Status(text) : reply.Bulk(text);
  return reply.Take();
}

constexpr std::string_view kCrossSlot = "CROSSSLOT Keys in request don't hash to the same slot";

// No connection has it.
constexpr int kAdministrator = 1'000'000;

// As RESTORE: the whole key at once, so that no replica has a part of it. KEYS the key, ARGV its ttl in ms or 0, then
// three words for each part of its value.
constexpr const char* kRestore = R"(
redis.call('DEL', KEYS[1])
for i = 2, #ARGV, 3 do
  if ARGV[i] == 'SET' then redis.call('SET', KEYS[1], ARGV[i + 2])
  else redis.call(ARGV[i], KEYS[1], ARGV[i + 1], ARGV[i + 2]) end
end
if ARGV[1] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end)";

// The keys of a client's command.
std::span<const std::string_view> KeysOfCall(std::span<const std::string_view> argv) {
  size_t count = 0;
  if (argv.size() < 4 || (argv[0] != "EVALSHA" && argv[0] != "EVAL")) return {};
  std::from_chars(argv[2].data(), argv[2].data() + argv[2].size(), count);
  return argv.subspan(3, std::min(count, argv.size() - 3));
}

// The keys of a script's command.
std::span<const std::string_view> KeysOfScriptCommand(std::span<const std::string_view> argv) {
  if (argv[0] == "MGET" || argv[0] == "DEL" || argv[0] == "EXISTS") return argv.subspan(1);
  if (argv[0] == "TIME" || argv[0] == "PUBLISH" || argv[0] == "SPUBLISH" || argv.size() < 2) return {};
  return argv.subspan(1, 1);
}

}  // namespace

void ClusterNode::Set(std::map<Slot, int>& slots, Slot slot, std::optional<int> node) {
  slots.erase(slot);
  if (node) slots.emplace(slot, *node);
}

void ClusterNode::Gate() {
  model().GateScripts([this](Command argv) {
    if (restoring_) return true;
    if (argv[0] == "SPUBLISH") return owner_of_[store::SlotOf(argv[1])] == number_;
    return Redirection(KeysOfScriptCommand(argv), script_asking_).empty();
  });
}

std::string ClusterNode::Redirection(Command keys, bool asking) {
  if (keys.empty()) return "";
  const Slot slot = store::SlotOf(keys.front());
  if (std::ranges::any_of(keys, [slot](std::string_view key) { return store::SlotOf(key) != slot; })) {
    return std::string(kCrossSlot);
  }
  const auto here = std::ranges::count_if(keys, [this](std::string_view key) { return Has(key); });
  const bool all = here == static_cast<std::ptrdiff_t>(keys.size());
  constexpr std::string_view kTryAgain = "TRYAGAIN Multiple keys request during rehashing of slot";
  if (owner_of_[slot] == number_) {
    const auto to = migrating_.find(slot);
    if (to == migrating_.end() || all) return "";
    if (here > 0) return std::string(kTryAgain);
    return store::Cat("ASK ", slot, " ", HostOf(to->second), ":", kPort);
  }
  if (asking && importing_.contains(slot)) return keys.size() > 1 && !all ? std::string(kTryAgain) : "";
  if (owner_of_[slot] == kNobody) return "CLUSTERDOWN Hash slot not served";
  return store::Cat("MOVED ", slot, " ", HostOf(owner_of_[slot]), ":", kPort);
}

void ClusterNode::RunNow(int connection, std::string_view command, Answer answer) {
  Sync();
  std::string_view bytes = command;
  const Argv argv = ParseCommand(bytes);
  const bool asking = asking_.erase(connection) > 0;
  if (argv[0] == "ASKING") {
    asking_.insert(connection);
    return answer(TextReply("OK", true));
  }
  if (argv[0] == "CLUSTER") {
    return answer(argv.size() == 2 && argv[1] == "SLOTS" ? Slots() : TextReply("id-" + HostOf(number_), false));
  }
  if (argv[0] == "SSUBSCRIBE") {
    const Slot slot = store::SlotOf(argv[1]);
    const auto is_elsewhere = [slot](std::string_view channel) { return store::SlotOf(channel) != slot; };
    if (std::any_of(argv.begin() + 1, argv.end(), is_elsewhere)) return answer(RefusalOf(kCrossSlot));
    if (owner_of_[slot] != number_) {
      return answer(RefusalOf(store::Cat("MOVED ", slot, " ", HostOf(std::max<int>(owner_of_[slot], 0)), ":", kPort)));
    }
  }
  if (argv[0] == "CONFIG" && argv.back() == "cluster-*") return answer(Configuration());
  const Command keys = KeysOfCall(argv);
  if (!keys.empty() && env_.now() < refuses_until_) return answer(RefusalOf("CLUSTERDOWN The cluster is down"));
  if (const std::string error = Redirection(keys, asking); !error.empty()) return answer(RefusalOf(error));
  script_asking_ = asking;
  ReplicaServer::RunNow(connection, command, std::move(answer));
  script_asking_ = false;
}

store::ReplyPtr ClusterNode::Configuration() const {
  ReplyTree reply;
  reply.Array(4);
  reply.Bulk("cluster-node-timeout");
  reply.Bulk(store::Cat(std::chrono::duration_cast<milliseconds>(env_.temper.node_timeout).count()));
  reply.Bulk("cluster-require-full-coverage");
  reply.Bulk(env_.temper.full_coverage ? "yes" : "no");
  return reply.Take();
}

store::ReplyPtr ClusterNode::Slots() const {
  struct Range {
    size_t first, last;
    int8_t owner;
  };
  std::vector<Range> ranges;
  for (size_t slot = 0; slot < store::kSlots; ++slot) {
    const int8_t owner = owner_of_[slot];
    if (owner == kNobody || (alone_ && owner != number_)) continue;
    if (!ranges.empty() && ranges.back().owner == owner && ranges.back().last + 1 == slot) {
      ranges.back().last = slot;
    } else {
      ranges.push_back({slot, slot, owner});
    }
  }
  ReplyTree reply;
  reply.Array(ranges.size());
  for (const Range& range : ranges) {
    std::vector<int> nodes = replicas_of_(range.owner);
    nodes.insert(nodes.begin(), range.owner);
    reply.Array(2 + nodes.size());
    reply.Integer(static_cast<int64_t>(range.first));
    reply.Integer(static_cast<int64_t>(range.last));
    for (const int node : nodes) {
      reply.Array(3);
      reply.Bulk(node == number_ && env_.temper.nameless_nodes ? "" : HostOf(node));
      reply.Integer(kPort);
      reply.Bulk("id-" + HostOf(node));
    }
  }
  return reply.Take();
}

std::vector<std::string> ClusterNode::KeysOf(Slot slot) {
  Sync();
  std::vector<std::string> keys;
  for (const KeyFacts& fact : model().Keys()) {
    if (store::SlotOf(fact.key) == slot) keys.emplace_back(fact.key);
  }
  return keys;
}

bool ClusterNode::CanMoveTo(ClusterNode& to) {
  if (!running() || !to.running() || !leads() || !to.leads()) return false;
  const bool takes = !store::IsError(*to.model().Execute(kAdministrator, {"SET", "probe", "1", "PX", "1000"}));
  to.model().Execute(kAdministrator, {"DEL", "probe"});
  return takes && !store::IsError(*model().Execute(kAdministrator, {"DEL", "probe"}));
}

void ClusterNode::MoveKey(const std::string& key, ClusterNode& to) {
  Sync();
  to.Sync();
  const int64_t left = model().Pttl(key);
  std::vector<std::string> words = {"EVAL", kRestore, "1", key, left < 0 ? "0" : store::Cat(left + 1)};
  if (const auto text = model().String(key)) words.insert(words.end(), {"SET", "", std::string(*text)});
  for (const auto& [member, score] : model().Zset(key)) {
    words.insert(words.end(), {"ZADD", store::Cat(static_cast<int64_t>(score)), std::string(member)});
  }
  for (const auto& [field, value] : model().Hash(key)) {
    words.insert(words.end(), {"HSET", std::string(field), std::string(value)});
  }
  to.restoring_ = true;
  to.model().Execute(kAdministrator, Argv(words.begin(), words.end()));
  to.restoring_ = false;
  model().Execute(kAdministrator, {"DEL", key});
  Sync();
  to.Sync();
}

}  // namespace distlock::sim
