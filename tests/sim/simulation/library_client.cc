// SPDX-License-Identifier: Apache-2.0
#include "simulation/library_client.h"

#include <algorithm>

namespace distlock::sim {

using internal::LockTable;

namespace {

// Reasons that the library itself makes have no name on the wire.
core::RefusalReason ReasonOf(RefusalReason reason) {
  if (reason == RefusalReason::kClientClosed) return core::RefusalReason::kCancelled;
  if (reason >= RefusalReason::kUnreachable || reason == RefusalReason::kUnspecified) {
    return core::RefusalReason::kStoreUnavailable;
  }
  return static_cast<core::RefusalReason>(static_cast<int>(reason) - 1);
}

}  // namespace

LibraryClient::LibraryClient(Env& env, int number, Neighbours neighbours)
    : ClientProcess(env, number, "library client", neighbours),
      most_wishes_(static_cast<size_t>(1 + env.dice.Roll(3))) {}
LibraryClient::~LibraryClient() = default;

void LibraryClient::Start() {
  table_ = std::make_unique<LockTable>(LockTable::Options{.address = "broker",
                                                          .label = name(),
                                                          .unreachable_timeout_ns = 10'000'000'000,
                                                          .connect_timeout_ns = 5'000'000'000,
                                                          .reissue_waits = env_.dice.Chance(0.8),
                                                          .request_prefix = PrefixOfRequests()});
  failures_ = 0;
  reconnect_at_ns_ = 0;
  armed_ns_ = internal::kNever;
  leaving_ = false;
  ClientProcess::Start();
  Connect();
}

void LibraryClient::Vanish() {
  if (stream_ != nullptr) StopListening(*stream_);
  stream_.reset();
  table_.reset();
  requests_.clear();
  leases_.clear();
  twins_.clear();
  asked_for_.clear();
  labels_.clear();
  fx_ = {};
  ++timer_;
}

// ---- Time ----

void LibraryClient::Arm() {
  const int64_t at_ns = std::min(table_->wake_ns(), reconnect_at_ns_);
  if (at_ns >= armed_ns_) return;
  armed_ns_ = at_ns;
  PostAt(Duration(at_ns), [this, timer = ++timer_] {
    if (timer == timer_) OnTimer();
  });
}

void LibraryClient::OnTimer() {
  armed_ns_ = internal::kNever;
  ++timer_;
  const int64_t now_ns = Now();
  if (stream_ != nullptr && table_->at(0).IsLapsed(now_ns)) {
    Break(EndCause::kLapsed, "the broker was not heard for the whole validity", std::nullopt);
    ReconnectLater();
  }
  table_->Tick(now_ns, fx_);
  if (stream_ == nullptr && now_ns >= reconnect_at_ns_ && !leaving_) return Connect();
  Settle();
}

void LibraryClient::OnResumed() {
  if (table_ != nullptr) OnTimer();
}

// ---- The program ----

std::shared_ptr<const internal::Spec> LibraryClient::SpecFor(const Wish& wish) const {
  LockOptions options;
  options.ttl = wish.ttl;
  options.max_hold = wish.max_hold;
  options.lock_delay = wish.lock_delay;
  options.min_hold = wish.min_hold;
  options.policy = static_cast<QueuePolicy>(static_cast<int>(wish.want.policy) + 1);
  options.on_disconnect = static_cast<OnDisconnect>(static_cast<int>(wish.on_disconnect) + 1);
  options.owner = LabelOf(wish);
  options.reentrant = wish.reentrant;
  const v1::LockSpec wire = SpecOf(wish);
  return internal::MakeSpec(wish.key, std::move(options), {wire.mode(), wire.permits(), wire.limit()});
}

void LibraryClient::Ask(Wish& wish) { AskTogether({wish.id}); }

void LibraryClient::AskTogether(const std::vector<int64_t>& ids) {
  std::vector<internal::SpecPtr> specs;
  for (const int64_t id : ids) specs.push_back(SpecFor(*Find(id)));
  const auto answered = [this, ids](Result<internal::Leases> answer) {
    for (size_t i = 0; i < ids.size(); ++i) {
      OnAnswer(ids[i], answer.ok() ? (*answer)[i] : nullptr, answer.ok() ? Refusal{} : answer.refusal());
    }
  };
  const auto request = table_->Acquire(specs, Find(ids.front())->max_wait, answered, Now(), fx_);
  for (size_t i = 0; i < request->leases.size(); ++i) {
    requests_[ids[i]] = request;
    asked_for_[request->leases[i]->id] = ids[i];
    labels_[request->leases[i]->id] = LabelOf(*Find(ids[i]));
  }
  if (const Wish& wish = *Find(ids.front()); wish.reentrant) AskTwin(wish, specs.front());
  Settle();
}

// `lease`: null for a refusal.
void LibraryClient::OnAnswer(int64_t id, const internal::LeasePtr& lease, const Refusal& refusal) {
  requests_.erase(id);
  Wish* wish = Find(id);
  if (wish == nullptr) return;
  if (lease != nullptr) {
    leases_[id] = lease;
    return OnGranted(*wish, static_cast<uint64_t>(lease->token));
  }
  LeaveTwin(id);
  OnRefused(*wish, ReasonOf(refusal.reason));
}

// ---- Re-entry ----

void LibraryClient::AskTwin(const Wish& wish, const internal::SpecPtr& spec) {
  const int64_t id = wish.id;
  const auto answered = [this, id](Result<internal::Leases> answer) {
    if (answer.ok()) return OnTwin(id, answer->front());
    twins_.erase(id);
  };
  const auto request = table_->Acquire({&spec, 1}, wish.max_wait, answered, Now(), fx_);
  if (request->leases.empty()) return;
  const internal::LeasePtr lease = request->leases.front();
  twins_[id] = {request, lease};
  asked_for_[lease->id] = id;
  labels_[lease->id] = LabelOf(wish);
}

void LibraryClient::OnTwin(int64_t id, const internal::LeasePtr& lease) {
  const Wish* wish = Find(id);
  const auto twin = twins_.find(id);
  if (wish == nullptr || twin == twins_.end() || twin->second.lease != lease)
    return table_->Release(lease, nullptr, Now(), fx_);
  if (wish->stage == Stage::kHeld && wish->token != static_cast<uint64_t>(lease->token))
    env_.Fail(name() + " took a lock again and got another token");
  twin->second.held = true;
}

void LibraryClient::LeaveTwin(int64_t id) {
  auto node = twins_.extract(id);
  if (node.empty()) return;
  if (!node.mapped().held) return table_->Cancel(*node.mapped().request, fx_);
  table_->Release(
      node.mapped().lease,
      [this](ReleaseOutcome outcome) {
        if (outcome == ReleaseOutcome::kReleased)
          env_.Fail(name() + " gave back one of the two times it had a lock, and that freed it");
      },
      Now(), fx_);
}

void LibraryClient::GiveUp(Wish& wish) {
  table_->Cancel(*requests_.at(wish.id), fx_);
  LeaveTwin(wish.id);
  Settle();
}

void LibraryClient::GiveBack(Wish& wish) {
  const int64_t id = wish.id;
  LeaveTwin(id);
  table_->Release(
      leases_.at(id),
      [this, id](ReleaseOutcome outcome) {
        Wish* same = Find(id);
        if (same == nullptr) return;
        leases_.erase(id);
        if (outcome == ReleaseOutcome::kUnknown) return Forget(*same);
        OnReleased(*same, outcome == ReleaseOutcome::kReleased ? core::ReleaseOutcome::kReleased
                                                               : core::ReleaseOutcome::kAlreadyGone);
      },
      Now(), fx_);
  Settle();
}

void LibraryClient::Downgrade(Wish& wish) {
  const int64_t id = wish.id;
  const auto answer = [this, id](const std::optional<distlock::Refusal>& refusal) {
    if (!refusal || refusal->reason != RefusalReason::kStoreUnavailable) return;
    PostAfter(env_.dice.Between(milliseconds(1), seconds(1)), [this, id] {
      Wish* same = Find(id);
      if (same != nullptr && same->stage == Stage::kHeld && !same->releasing && leases_.contains(id)) Downgrade(*same);
    });
  };
  table_->Downgrade(leases_.at(id), answer, fx_);
  Settle();
}

// Like Core::StateOf.
bool LibraryClient::Checks(Wish& wish) {
  const int64_t id = wish.id;
  const internal::LeasePtr lease = leases_.at(id);
  if (lease->cause.load() == EndCause::kNotEnded && Now() >= lease->deadline_ns.load()) {
    table_->Notice(lease, Now(), fx_);
    Settle();
  }
  return Find(id) != nullptr && lease->cause.load() == EndCause::kNotEnded;
}

void LibraryClient::Leave() {
  if (!alive()) return;
  leaving_ = true;
  table_->Close(Now(), fx_);
  Settle();
}

// Runs the callbacks that a change of the table led to.
void LibraryClient::Settle() {
  if (std::exchange(settling_, true)) return;
  while (!fx_.empty()) {
    std::exchange(fx_, {}).Run({});
  }
  SyncBeliefs();
  settling_ = false;
  if (table_ == nullptr) return;
  Flush();
  Arm();
}

void LibraryClient::SyncBeliefs() {
  std::vector<int64_t> held;
  for (const auto& [id, wish] : wishes()) {
    if (wish.stage == Stage::kHeld && !wish.releasing) held.push_back(id);
  }
  for (const int64_t id : held) {
    Wish& wish = *Find(id);
    const internal::LeasePtr lease = leases_.at(id);
    const EndCause cause = lease->cause.load();
    if (cause == EndCause::kNotEnded) {
      OnBelief(wish, Duration(lease->deadline_ns.load()));
      continue;
    }
    leases_.erase(id);
    switch (cause) {
      case EndCause::kLapsed:
        OnEnded(wish, EndedWhy::kDeadline);
        break;
      case EndCause::kDisconnected:
        OnEnded(wish, EndedWhy::kStreamBroke);
        break;
      case EndCause::kReleased:
      case EndCause::kClientClosed:
        OnEnded(wish, EndedWhy::kReleasing);
        break;
      case EndCause::kMaxHold:
        OnEnded(wish, EndedWhy::kLost, static_cast<int>(core::LostReason::kMaxHold) + 1);
        break;
      default:
        OnEnded(wish, EndedWhy::kLost, static_cast<int>(cause));
        break;
    }
  }
}

}  // namespace distlock::sim
