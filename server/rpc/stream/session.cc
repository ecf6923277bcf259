// SPDX-License-Identifier: Apache-2.0
//
// SessionCall: routing. session_read.cc reads, session_check.cc checks commands, session_events.cc sends events.
#include "rpc/stream/session.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_details.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "rpc/engine/wire.h"
#include "rpc/messages/status.h"

namespace distlock::rpc {

using core::RefusalReason;

namespace {

constexpr uint64_t kMaxId = std::numeric_limits<int64_t>::max();

void ShowStore(const Frontend& frontend, v1::SessionOpened* opened) {
  if (frontend.store_id) opened->set_store_id(frontend.store_id());
  for (const shard::ShardStatus& shard : frontend.shards.Status()) {
    if (!shard.store_up) opened->set_store_problem(contract::CleanText(shard.store_problem));
  }
  const bool is_up = opened->store_problem().empty();
  if (frontend.store_held_off && is_up) opened->set_store_held_off(frontend.store_held_off());
}

std::string BadId(int64_t id) { return absl::StrCat("commands.id is ", id, "; ids of commands start at 1"); }

}  // namespace

SessionCall::SessionCall(Frontend& frontend, Call arrival)
    : StreamCall(frontend, std::move(arrival)),
      rate_(frontend.limits.requests_per_second),
      commands_share_(static_cast<int64_t>(frontend.limits.max_unhandled_per_session), waits_for_room_),
      heartbeats_share_(kMaxPendingHeartbeats, waits_for_room_),
      outbox_(frontend.limits.outbox_messages * kOutboxEventsPerMessage),
      batches_(frontend.shards.size()) {}

void SessionCall::Start() {
  peer_use_ = frontend_.admission.UseOf(peer_);
  ShareWithPeer();
  const gpr_timespec timeout = gpr_time_from_nanos(frontend_.limits.open_timeout.count(), GPR_TIMESPAN);
  open_timeout_.Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), timeout), [weak = weak_from_this()](bool passed) {
    const auto self = passed ? std::static_pointer_cast<SessionCall>(weak.lock()) : nullptr;
    if (self != nullptr) self->OnOpenTimeout();
  });
  StartRead(&in_);
}

void SessionCall::OnOpenTimeout() {
  {
    std::lock_guard lock(mu_);
    if (ended() || open_on_ != 0) return;
    const auto seconds = std::chrono::duration<double>(frontend_.limits.open_timeout).count();
    const std::string problem =
        absl::StrCat("no OpenSession has come for ", seconds, " s; it must be a session's first command");
    const v1::Refusal refusal = contract::MakeRefusal(RefusalReason::kInvalidArgument, problem);
    Decide(ToStatus(contract::ErrorOf(refusal)), StreamClose::kProtocol);
    if (frontend_.observer != nullptr) frontend_.observer->OnRefusedHere(RefusalReason::kInvalidArgument);
  }
  Pump();
}

SessionCall::Stop SessionCall::Broken(std::string problem) {
  return {contract::MakeRefusal(RefusalReason::kInvalidArgument, std::move(problem)), StreamClose::kProtocol};
}

void SessionCall::EndBy(const Stop& stop) {
  {
    const std::lock_guard checking(checking_mu_);
    std::lock_guard lock(mu_);
    if (ended()) return;
    if (frontend_.observer != nullptr) frontend_.observer->OnRefusedHere(contract::ReasonOf(stop.refusal.reason()));
  }
  End(ToStatus(contract::ErrorOf(stop.refusal)), stop.why, /*drop=*/false);
}

void SessionCall::DescribeMore(v1::SessionInfo* info) const {
  const size_t waiting = book_.waiting();
  info->set_kind(v1::STREAM_KIND_SESSION);
  info->set_client(client_);
  info->set_leases(static_cast<int32_t>(book_.acquires() - waiting));
  info->set_waiters(static_cast<int32_t>(waiting));
}

std::optional<SessionCall::Stop> SessionCall::Open(const v1::SessionCommand& command) {
  std::string problem;
  if (!command.has_open()) problem = "the first command of a session must be OpenSession";
  if (opened_) problem = "OpenSession came twice; open another stream for another session";
  if (problem.empty() && command.id() <= 0) problem = BadId(command.id());
  if (!problem.empty()) return Broken(std::move(problem));
  contract::Validator check(frontend_.limits);
  check.Text(command.open().client(), frontend_.limits.max_owner_bytes, "open.client");
  check.Count(command.open().generation(), INT32_MAX, "open.generation");
  if (!check.ok()) return Stop{check.Refusal()};
  opened_ = true;
  auto event = std::make_unique<v1::SessionEvent>();
  ShowStore(frontend_, event->mutable_opened());
  bool posted = false;
  {
    std::lock_guard lock(mu_);
    if (ended()) return std::nullopt;
    posted = OpenOn(0);
    client_ = command.open().client();
    generation_ = static_cast<uint32_t>(command.open().generation());
    event->mutable_opened()->set_session_id(public_id());
    event->mutable_opened()->set_broker_id(frontend_.broker_id);
    *event->mutable_opened()->mutable_validity() = contract::ToProto(frontend_.limits.validity);
    *event->mutable_opened()->mutable_heartbeat_interval() = contract::ToProto(frontend_.limits.validity / 3);
    event->mutable_opened()->set_max_message_bytes(static_cast<int32_t>(frontend_.limits.max_message_bytes));
    event->mutable_opened()->add_features("adopt");
    event->mutable_opened()->add_features("authenticate");
    event->mutable_opened()->add_features("wanted");
    event->mutable_opened()->set_max_leases(static_cast<int32_t>(frontend_.limits.max_leases_per_session));
    if (frontend_.limits.has_permits) event->mutable_opened()->add_features("permit");
    event->mutable_opened()->set_identity(contract::CleanText(subject_.identity()));
    if (const auto left = frontend_.authorizer.ProofLeft(subject_)) {
      *event->mutable_opened()->mutable_proof_valid_for() = contract::ToProto(*left);
    }
    event->mutable_opened()->set_max_unanswered(static_cast<int32_t>(frontend_.limits.max_unhandled_per_session));
    event->mutable_opened()->set_process_bound(command.open().has_process() && BindProcess(command.open().process()));
    if (posted) {
      Answer({.id = static_cast<uint64_t>(command.id()), .event = {}, .about = {}, .made = std::move(event)});
    }
  }
  open_timeout_.Cancel();
  if (!posted) return Stop{contract::OverloadRefusal(), StreamClose::kQuota};
  return std::nullopt;
}

std::string SessionCall::Route() {
  for (int64_t room = commands_share_.room(); routed_ < ready_.size() && room > 0; --room) {
    Ready& command = ready_[routed_];
    if (std::holds_alternative<core::Heartbeat>(command.what) && heartbeats_share_.room() == 0) break;
    ++routed_;
    std::string problem = RouteOne(command);
    if (!problem.empty()) {
      FlushAll();  // the commands before this one are valid
      return problem;
    }
  }
  FlushAll();
  return "";
}

std::string SessionCall::RouteOne(Ready& command) {
  if (auto* heartbeat = std::get_if<core::Heartbeat>(&command.what)) {
    if (heartbeat->seq > kMaxId) {
      return absl::StrCat("heartbeat.seq is ", static_cast<int64_t>(heartbeat->seq), "; it counts 1, 2, 3, ...");
    }
    if (!leaving_) RouteHeartbeat(heartbeat->seq);
    return "";
  }
  if (leaving_) return "a command came after Goodbye";
  if (std::holds_alternative<core::Goodbye>(command.what)) {
    leaving_ = true;
    for (int shard = 0; shard < static_cast<int>(batches_.size()); ++shard) {
      if ((open_on_ >> shard & 1) != 0) PostNow(shard, core::Goodbye{session_});
    }
    return "";
  }
  if (auto* cancel = std::get_if<core::Cancel>(&command.what)) {
    if (const auto shard = book_.ShardOf(cancel->acquire)) PostNow(*shard, *cancel);
    return "";
  }
  if (command.id == 0 || command.id > kMaxId) return BadId(static_cast<int64_t>(command.id));
  if (command.ids - 1 > kMaxId - command.id) {
    return absl::StrCat("commands.id ", command.id, " leaves no ids for ", command.ids, " locks; take a smaller one");
  }
  for (core::RequestId id = command.id; id - command.id < command.ids; ++id) {
    if (!book_.Has(id)) continue;
    return absl::StrCat("commands.id ", id, " is in use by an unanswered command or a living acquire; ",
                        "take a new one for each command, and for each lock of an acquire");
  }
  if (auto* done = std::get_if<v1::Authenticated>(&command.what)) {
    auto event = std::make_unique<v1::SessionEvent>();
    *event->mutable_authenticated() = std::move(*done);
    Answer({.id = command.id, .event = {}, .about = {}, .made = std::move(event)});
  } else if (auto* refusal = std::get_if<v1::Refusal>(&command.what)) {
    for (core::RequestId i = 0; i < command.ids; ++i) Refused(command.id + i, *refusal);
  } else if (auto* acquire = std::get_if<core::Acquire>(&command.what)) {
    RouteAcquire(std::move(*acquire));
  } else if (auto* all = std::get_if<core::AcquireAll>(&command.what)) {
    RouteAcquireAll(std::move(*all));
  } else if (auto* adopt = std::get_if<core::Adopt>(&command.what)) {
    RouteAdopt(std::move(*adopt));
  } else if (auto* release = std::get_if<core::Release>(&command.what)) {
    RouteRelease(command.id, std::move(*release));
  } else if (auto* downgrade = std::get_if<core::Downgrade>(&command.what)) {
    RouteDowngrade(command.id, std::move(*downgrade));
  }
  return "";
}

// A refusal when so many more leases and waiters would be too many.
std::optional<v1::Refusal> SessionCall::RoomFor(size_t more) const {
  const size_t most = frontend_.limits.max_leases_per_session;
  if (book_.acquires() + more <= most) {
    return account_ == nullptr ? std::nullopt : NoRoom(*account_, subject_.identity(), more + Uncounted());
  }
  return contract::MakeRefusal(
      RefusalReason::kQuotaExceeded,
      absl::StrCat("this session has ", book_.acquires(), " leases and waiters and may have ", most,
                   " (limit max-leases-per-session); release some, or open another session"));
}

size_t SessionCall::Uncounted() const { return book_.waiting() - static_cast<size_t>(counted_waiters_); }

void SessionCall::CountUse() {
  if (account_ == nullptr) return;
  const auto waiters = ended() ? 0 : static_cast<int64_t>(book_.waiting());
  const auto leases = ended() ? 0 : static_cast<int64_t>(book_.acquires()) - waiters;
  account_->Count(leases - counted_leases_, waiters - counted_waiters_);
  counted_leases_ = leases;
  counted_waiters_ = waiters;
}

void SessionCall::RouteAcquire(core::Acquire acquire) {
  if (auto refusal = RoomFor(1)) return Refused(acquire.request, *std::move(refusal));
  const int shard = shards_.ShardOf(acquire.name);
  if (!OpenOn(shard)) return Refused(acquire.request, contract::OverloadRefusal());
  book_.AddAcquire(acquire.request, acquire.name, acquire.owner, shard);
  batches_[shard].acquires.push_back(acquire.request);
  batches_[shard].inputs.emplace_back(std::move(acquire));
}

// All leases live on the shard of the first lock. To the store each shard is a broker of its own, so any shard can hold
// any lock.
void SessionCall::RouteAcquireAll(core::AcquireAll all) {
  std::optional<v1::Refusal> refusal = RoomFor(all.parts.size());
  const int shard = shards_.ShardOf(all.parts.front().name);
  if (!refusal && !OpenOn(shard)) refusal = contract::OverloadRefusal();
  if (refusal) {
    for (const core::Acquire& part : all.parts) Refused(part.request, *refusal);
    return;
  }
  for (const core::Acquire& part : all.parts) {
    book_.AddAcquire(part.request, part.name, part.owner, shard);
    batches_[shard].acquires.push_back(part.request);
  }
  batches_[shard].inputs.emplace_back(std::move(all));
}

void SessionCall::RouteAdopt(core::Adopt adopt) {
  std::optional<v1::Refusal> refusal = RoomFor(adopt.hold_count);
  const int shard = shards_.ShardOf(adopt.name);
  if (!refusal && !OpenOn(shard)) refusal = contract::OverloadRefusal();
  for (core::RequestId id = adopt.request; id - adopt.request < adopt.hold_count; ++id) {
    if (refusal) {
      Refused(id, *refusal);
      continue;
    }
    book_.AddAcquire(id, adopt.name, adopt.owner, shard);
    batches_[shard].acquires.push_back(id);
  }
  if (!refusal) batches_[shard].inputs.emplace_back(std::move(adopt));
}

// Releases and downgrades wait while the store is down. This bounds how many of a client's may wait.
std::optional<v1::Refusal> SessionCall::TooManyUnanswered() const {
  const size_t unanswered = book_.size() - book_.acquires();
  if (unanswered < frontend_.limits.max_leases_per_session) return std::nullopt;
  return contract::MakeRefusal(RefusalReason::kQuotaExceeded,
                               absl::StrCat(unanswered, " releases of this session are unanswered; wait for them"),
                               std::chrono::seconds(1));
}

void SessionCall::RouteRelease(core::RequestId id, core::Release release) {
  if (auto refusal = TooManyUnanswered()) return Refused(id, *std::move(refusal));
  if (release.acquire == 0) {
    const core::RequestId acquire = book_.AcquireOf(release.owner);
    const int shard = book_.ShardOf(acquire).value_or(shards_.ShardOf(release.name));
    if (!OpenOn(shard)) return Refused(id, contract::OverloadRefusal());
    book_.AddRelease(id, acquire, shard);
    return PostNow(shard, std::move(release));
  }
  const auto shard = book_.ShardOf(release.acquire);
  if (!shard) {
    if (frontend_.observer != nullptr) frontend_.observer->OnReleasedNothing();
    return Answer({.id = id,
                   .event = core::Released{.outcome = core::ReleaseOutcome::kAlreadyGone, .name = {}},
                   .about = {},
                   .made = nullptr});
  }
  // Releasing an acquire that is not granted yet withdraws it.
  if (book_.IsWaiting(release.acquire)) PostNow(*shard, core::Cancel{session_, release.acquire});
  book_.AddRelease(id, release.acquire, *shard);
  PostNow(*shard, std::move(release));
}

void SessionCall::RouteDowngrade(core::RequestId id, core::Downgrade downgrade) {
  if (auto refusal = TooManyUnanswered()) return Refused(id, *std::move(refusal));
  const auto known = book_.ShardOf(downgrade.acquire != 0 ? downgrade.acquire : book_.AcquireOf(downgrade.owner));
  const auto shard = downgrade.acquire == 0 && !known ? shards_.ShardOf(downgrade.name) : known;
  if (!shard) {
    return Refused(
        id, contract::MakeRefusal(RefusalReason::kNotHolder, absl::StrCat("downgrade.acquire_id ", downgrade.acquire,
                                                                          " is no lease of this session (any more)")));
  }
  if (!OpenOn(*shard)) return Refused(id, contract::OverloadRefusal());
  book_.AddRelease(id, 0, *shard);  // target 0: its answer ends no acquire
  PostNow(*shard, std::move(downgrade));
}

void SessionCall::RouteHeartbeat(uint64_t seq) {
  heartbeats_.Sent(seq, open_on_);
  for (int shard = 0; shard < static_cast<int>(batches_.size()); ++shard) {
    if ((open_on_ >> shard & 1) != 0) PostHeartbeat(shard, seq);
  }
}

// One that finds too many waiting is lost: the next one covers what it would have.
void SessionCall::PostHeartbeat(int shard, uint64_t seq) {
  static_cast<void>(shards_.TryPostFirst(shard, core::Heartbeat{session_, seq}, nullptr, &heartbeats_share_));
}

bool SessionCall::OpenOn(int shard) {
  if ((open_on_ >> shard & 1) != 0) return true;
  core::OpenSession open{.session = session_, .kind = core::SessionKind::kSession};
  if (!shards_.TryPostFirst(shard, open, shared_from_this())) return false;
  open_on_ |= uint64_t{1} << shard;
  for (const uint64_t seq : heartbeats_.Joined(shard)) PostHeartbeat(shard, seq);
  return true;
}

void SessionCall::Flush(int shard) {
  Batch batch = std::exchange(batches_[shard], {});
  if (batch.inputs.empty() || shards_.TryPost(shard, std::move(batch.inputs), &commands_share_)) return;
  for (const core::RequestId id : batch.acquires) {
    book_.Forget(id);
    Refused(id, contract::OverloadRefusal());
  }
}

void SessionCall::FlushAll() {
  for (int shard = 0; shard < static_cast<int>(batches_.size()); ++shard) Flush(shard);
}

void SessionCall::PostNow(int shard, core::Input input) {
  Flush(shard);
  shards_.Post(shard, std::move(input), session_, nullptr, &commands_share_);
}

}  // namespace distlock::rpc
