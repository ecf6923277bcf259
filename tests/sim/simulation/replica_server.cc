// SPDX-License-Identifier: Apache-2.0
#include "simulation/replica_server.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "redis/reply_sink.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

constexpr std::string_view kNotHere =
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured "
    "to be writable (which is not the default) writes to replicas are just local and are not propagated.";
constexpr std::string_view kUnblocked =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

store::ReplyPtr IntegerReply(int value) {
  ReplyTree reply;
  reply.Integer(value);
  return reply.Take();
}

store::ReplyPtr ErrorReply(std::string_view text) {
  ReplyTree reply;
  reply.Error(text);
  return reply.Take();
}

int NumberOf(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

ReplicaServer::ReplicaServer(Env& env, int number, std::string host)
    : StoreProcess(env, number), host_(std::move(host)) {
  model().OnEffects([this](const Effects& effects) {
    ++offset_;
    for (const Follower& follower : followers_) {
      const WirePtr wire = follower.wire.lock();
      if (wire == nullptr) continue;
      wire->Send(Wire::kServer,
                 [server = follower.server, effects, offset = offset_] { server->OnStreamed(effects, offset); });
    }
  });
  Dice dice(env.seed ^ static_cast<uint64_t>(number));
  PostAfter(dice.Between(Duration(0), seconds(1)), [this] { CountEachSecond(); });
}

void ReplicaServer::DemandReplicas(int count, Duration max_lag) {
  min_replicas_ = count;
  max_lag_ = max_lag;
  model().SetMinReplicas(count, static_cast<int>(std::chrono::duration_cast<seconds>(max_lag).count()));
  Count();
}

// ---- Commands ----

void ReplicaServer::Run(int connection, std::string_view command, Answer answer) {
  if (const auto waits = waiting_.find(connection); waits != waiting_.end()) {
    return waits->second.behind.emplace_back(command, std::move(answer)), void();
  }
  std::string_view bytes = command;
  const Argv argv = ParseCommand(bytes);
  if (!argv.empty() && argv[0] == "WAIT") return Wait(connection, argv, std::move(answer));
  RunNow(connection, command, std::move(answer));
}

void ReplicaServer::RunNow(int connection, std::string_view command, Answer answer) {
  const uint64_t before = offset_;
  store::ReplyPtr reply = Execute(connection, command);
  if (offset_ != before) wrote_[connection] = offset_;
  answer(std::move(reply));
}

void ReplicaServer::Wait(int connection, const Argv& argv, Answer answer) {
  if (!leads()) return answer(ErrorReply(kNotHere));
  const int replicas = NumberOf(argv[1]);
  const uint64_t offset = wrote_[connection];
  if (const int confirmed = Confirmed(offset); confirmed >= replicas) return answer(IntegerReply(confirmed));
  const uint64_t serial = ++waits_;
  waiting_.emplace(connection, Waiting{offset, replicas, serial, std::move(answer), {}});
  PostAfter(milliseconds(NumberOf(argv[2])), [this, connection, serial] {
    const auto waits = waiting_.find(connection);
    if (waits == waiting_.end() || waits->second.serial != serial) return;
    EndWait(connection, IntegerReply(Confirmed(waits->second.offset)));
  });
}

int ReplicaServer::Confirmed(uint64_t offset) const {
  return static_cast<int>(std::count_if(followers_.begin(), followers_.end(), [&](const Follower& one) {
    return one.confirmed >= std::max<uint64_t>(offset, 1);
  }));
}

void ReplicaServer::AnswerWaits() {
  std::vector<std::pair<int, int>> ready;
  for (const auto& [connection, waits] : waiting_) {
    const int confirmed = Confirmed(waits.offset);
    if (confirmed >= waits.replicas) ready.emplace_back(connection, confirmed);
  }
  for (const auto& [connection, confirmed] : ready) EndWait(connection, IntegerReply(confirmed));
}

void ReplicaServer::EndWait(int connection, store::ReplyPtr reply) {
  const auto waits = waiting_.find(connection);
  if (waits == waiting_.end()) return;
  Waiting ended = std::move(waits->second);
  waiting_.erase(waits);
  ended.answer(std::move(reply));
  // One of them may be a WAIT, behind which the rest waits.
  for (auto& [command, answer] : ended.behind) Run(connection, command, std::move(answer));
}

void ReplicaServer::UnblockAll() {
  std::vector<int> all;
  for (const auto& [connection, waits] : waiting_) all.push_back(connection);
  for (const int connection : all) EndWait(connection, ErrorReply(kUnblocked));
}

void ReplicaServer::Disconnect(int connection) {
  waiting_.erase(connection);
  wrote_.erase(connection);
  StoreProcess::Disconnect(connection);
}

// ---- As a primary ----

void ReplicaServer::Promote() {
  if (up_ != nullptr) std::exchange(up_, nullptr)->Close(Wire::kClient);
  primary_ = nullptr;
  ++attempt_;
  model().Promote();
  Sync();
  Count();
}

// A follower is not followed.
void ReplicaServer::Attach(ReplicaServer* follower, const WirePtr& wire, uint64_t attempt) {
  if (!leads()) return wire->Close(Wire::kServer);
  Sync();
  // Bytes for a connection that the follower has given up may come late, behind its next connection.
  const bool is_late = std::ranges::any_of(
      followers_, [&](const Follower& one) { return one.server == follower && one.attempt > attempt; });
  if (is_late) return wire->Close(Wire::kServer);
  std::erase_if(followers_, [&](const Follower& one) { return one.server == follower; });
  followers_.push_back({follower, wire, attempt, 0, Second()});
  wire->on_closed[Wire::kServer] = [this, weak = std::weak_ptr(wire)] {
    std::erase_if(followers_, [&](const Follower& one) { return one.wire.lock() == weak.lock(); });
    Count();
  };
  const auto data = std::make_shared<RedisModel>();
  data->CopyDataFrom(model());
  wire->Send(Wire::kServer, [follower, data, offset = offset_] { follower->OnCopied(*data, offset); });
}

void ReplicaServer::OnConfirmed(const ReplicaServer* follower, uint64_t offset) {
  const auto found =
      std::find_if(followers_.begin(), followers_.end(), [&](const Follower& one) { return one.server == follower; });
  if (found == followers_.end()) return;
  const bool is_online = found->confirmed > 0;
  found->confirmed = std::max(found->confirmed, offset);
  Sync();
  found->heard = Second();
  ShowFollowers();
  // A server counts them when one comes or goes, and once a second: not when one is heard.
  if (!is_online) Count();
  AnswerWaits();
}

void ReplicaServer::ShowFollowers() {
  std::vector<std::string> lines;
  for (const Follower& one : followers_) {
    lines.push_back(store::Cat("ip=", one.server->host(), ",port=", kPort, ",state=online,offset=", one.confirmed,
                               ",lag=", Second() - one.heard));
  }
  model().SetReplicas(std::move(lines));
}

void ReplicaServer::Count() {
  ShowFollowers();
  if (min_replicas_ == 0) return;
  const auto good = std::ranges::count_if(
      followers_, [&](const Follower& one) { return one.confirmed > 0 && seconds(Second() - one.heard) <= max_lag_; });
  const bool enough = good >= min_replicas_ || !leads();
  model().RefuseWrites(enough ? "" : "NOREPLICAS Not enough good replicas to write.");
}

Duration ReplicaServer::UntilLagCountsLate() {
  if (env_.dice.Chance(0.2)) return Duration(0);
  Sync();
  const Duration in_second = std::chrono::microseconds(model().now_us() % 1'000'000);
  return seconds(1) - in_second + env_.dice.Between(milliseconds(20), milliseconds(300));
}

void ReplicaServer::CountEachSecond() {
  PostAfter(seconds(1), [this] {
    Sync();
    Count();
    CountEachSecond();
  });
}

// ---- As a follower ----

void ReplicaServer::Follow(ReplicaServer& primary, bool hangs_up) {
  if (primary_ == &primary) return;
  env_.Log([&] { return name() + " follows " + primary.name(); });
  model().BecomeReplica(primary.host(), kPort);
  UnblockAll();
  for (const Follower& one : std::exchange(followers_, {})) {
    if (const WirePtr wire = one.wire.lock()) wire->Close(Wire::kServer);
  }
  if (up_ != nullptr) std::exchange(up_, nullptr)->Close(Wire::kClient);
  if (hangs_up) HangUp(milliseconds(20));
  primary_ = &primary;
  has_copy_ = false;
  Count();
  Connect();
}

void ReplicaServer::Connect() {
  const uint64_t attempt = ++attempt_;
  const auto again = [this, attempt] {
    if (attempt != attempt_ || primary_ == nullptr) return;
    up_.reset();
    PostAfter(seconds(1), [this, attempt] {
      if (attempt == attempt_ && primary_ != nullptr) Connect();
    });
  };
  if (!primary_->alive()) return again();
  up_ = Wire::Connect(env_, *this, *primary_);
  up_->on_closed[Wire::kClient] = again;
  up_->Send(Wire::kClient, [this, primary = primary_, weak = std::weak_ptr(up_), attempt] {
    if (const WirePtr wire = weak.lock()) primary->Attach(this, wire, attempt);
  });
  ConfirmEachSecond();
}

void ReplicaServer::OnCopied(const RedisModel& data, uint64_t offset) {
  Sync();
  model().CopyDataFrom(data);
  offset_ = offset;
  has_copy_ = true;
  Confirm();
}

void ReplicaServer::OnStreamed(const Effects& effects, uint64_t offset) {
  model().Apply(effects);
  offset_ = offset;
  Confirm();
}

void ReplicaServer::Confirm() {
  if (up_ == nullptr || !has_copy_) return;
  // An empty copy of an empty server is one, too.
  up_->Send(Wire::kClient, [primary = primary_, this, offset = std::max<uint64_t>(offset_, 1)] {
    primary->OnConfirmed(this, offset);
  });
}

void ReplicaServer::ConfirmEachSecond() {
  PostAfter(seconds(1), [this, attempt = attempt_] {
    if (attempt != attempt_) return;
    Confirm();
    ConfirmEachSecond();
  });
}

// ---- Its life ----

void ReplicaServer::Restart(Duration down, Memory memory) {
  followers_.clear();
  waiting_.clear();
  wrote_.clear();
  up_.reset();
  ++attempt_;
  has_copy_ = has_copy_ && memory == Memory::kAll;
  StoreProcess::Restart(down, memory);
}

void ReplicaServer::OnStarted() {
  CountEachSecond();
  Count();
  if (primary_ != nullptr) Connect();
}

}  // namespace distlock::sim
