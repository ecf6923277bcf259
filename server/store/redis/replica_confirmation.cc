// SPDX-License-Identifier: Apache-2.0
#include "store/redis/replica_confirmation.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "store/redis/resp.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::Duration kProbeEvery = std::chrono::milliseconds(250);

template <typename Outcome>
constexpr bool kHandsOn = std::is_same_v<Outcome, core::GiveBackDone> || std::is_same_v<Outcome, core::DowngradeDone> ||
                          std::is_same_v<Outcome, core::ForceDone>;

// Whether a release has left the lock blocked: nobody is to get it for a while.
template <typename Outcome>
bool LeavesBlocked(const Outcome& outcome) {
  if constexpr (std::is_same_v<Outcome, core::GiveBackDone>) return outcome.blocked_for > core::Duration::zero();
  return false;
}

// Somebody will believe to hold a lock because of it, or that nobody else gets it.
bool Promises(const core::StoreReply& reply) {
  return std::visit(
      [](const auto& outcome) {
        using Outcome = std::decay_t<decltype(outcome)>;
        if constexpr (std::is_same_v<Outcome, core::AcquireGranted>) return true;
        if constexpr (std::is_same_v<Outcome, core::AcquireAllDone>) return !outcome.grants.empty();
        if constexpr (std::is_same_v<Outcome, core::RenewDoneBatch>) return true;
        if constexpr (std::is_same_v<Outcome, core::TendDone>) return !outcome.holders.empty();
        if constexpr (std::is_same_v<Outcome, core::AdoptDone>) {
          return outcome.result == core::AdoptDone::Result::kAdopted;
        }
        if constexpr (kHandsOn<Outcome>) return !outcome.next.empty() || LeavesBlocked(outcome);
        return false;
      },
      reply.outcome);
}

// Doubts a reply that the replicas have not confirmed.
void Doubt(core::StoreReply& reply, const std::string& trouble) {
  std::visit(
      [&](auto& outcome) {
        using Outcome = std::decay_t<decltype(outcome)>;
        if constexpr (std::is_same_v<Outcome, core::RenewDoneBatch>) {
          std::replace(outcome.results.begin(), outcome.results.end(), core::RenewResult::kRenewed,
                       core::RenewResult::kUnanswered);
          outcome.trouble = trouble;
        } else if constexpr (std::is_same_v<Outcome, core::TendDone>) {
          // The next look shows them again, and has them confirmed.
          outcome.holders.clear();
          outcome.more = true;
        } else if constexpr (kHandsOn<Outcome>) {
          // The repeat of such a release is told of the block again.
          if (LeavesBlocked(outcome)) return void(reply.outcome = core::StoreUnknown{Cat("blocked, but ", trouble)});
          outcome.next.clear();
          outcome.look = true;
        } else {
          reply.outcome = core::StoreUnknown{Cat("granted, but ", trouble)};
        }
      },
      reply.outcome);
}

// Its answer may say that somebody has, or will be told to have, a lock.
bool MayPromise(const core::StoreCommand& command) {
  switch (core::VerbOf(command)) {
    case core::Verb::kAcquire:
    case core::Verb::kAcquireAll:
    case core::Verb::kRenew:
    case core::Verb::kTend:
    case core::Verb::kAdopt:
      return true;
    // They hand on at times. Then their answer asks.
    case core::Verb::kRelease:
    case core::Verb::kWithdraw:
    case core::Verb::kDowngrade:
    case core::Verb::kForce:
    case core::Verb::kWatch:
    case core::Verb::kWanted:
      return false;
  }
  return true;
}

}  // namespace

ReplicaConfirmation::ReplicaConfirmation(CommandSender* sender, Timers& timers, const StoreOptions& options, Pass pass)
    : sender_(sender),
      wanted_(options.wait_replicas),
      timeout_(options.wait_timeout),
      command_(MakeCommand({"WAIT", Cat(wanted_), Cat(CeilMs(timeout_))})),
      on_wait_(options.on_wait),
      pass_(std::move(pass)),
      probe_timer_(timers.Make([this] { Probe(); })) {}

std::string ReplicaConfirmation::Refusal(const core::StoreCommand& command) const {
  if (!refuses()) return "";
  const core::Verb verb = core::VerbOf(command);
  const bool takes = verb == core::Verb::kAcquire || verb == core::Verb::kAcquireAll || verb == core::Verb::kAdopt;
  return takes ? Cat("NOREPLICAS: ", trouble_, "; nothing is granted until they do") : "";
}

void ReplicaConfirmation::OnSent(const core::StoreCommand& command) { may_write_ |= on() && MayPromise(command); }

void ReplicaConfirmation::Flush() {
  if (std::exchange(may_write_, false)) Ask(nullptr);
}

void ReplicaConfirmation::OnAnswer(core::StoreReply&& reply) {
  const bool promises = on() && Promises(reply);
  // Answers keep their order, so that none overtakes one of the same lock.
  if (!promises && kept_.empty()) return pass_(std::move(reply));
  kept_.push_back(std::move(reply));
  // No WAIT follows what was sent again after its script had to be loaded, nor a release that handed the lock on.
  if (promises && asked_ == 0) Ask(nullptr);
}

void ReplicaConfirmation::Ask(std::function<void(int confirmed)> done) {
  ++asked_;
  sender_->Send(command_, [this, done = std::move(done)](const Answer& answer) {
    --asked_;
    const bool replied = answer.kind == Answer::Kind::kReply;
    const bool counted = replied && answer.reply->type == REDIS_REPLY_INTEGER;
    const int confirmed = counted ? static_cast<int>(answer.reply->integer) : 0;
    const std::string trouble =
        counted ? Cat(confirmed, " of ", wanted_, " replicas confirmed it within ", CeilMs(timeout_), " ms")
                : Cat("no replica was asked: ", replied ? Text(*answer.reply) : std::string_view(answer.cause));
    if (replied) Learn(confirmed >= wanted_, trouble, answer.received - answer.sent);
    PassAll(confirmed >= wanted_, trouble);
    // A connection that has ended teaches nothing about replicas; the probe goes on.
    if (refuses() && !probe_timer_->active()) probe_timer_->Start(kProbeEvery);
    if (done) done(confirmed);
  });
  sender_->Flush();
}

void ReplicaConfirmation::Learn(bool enough, const std::string& trouble, core::Duration took) {
  trouble_ = enough ? "" : trouble;
  short_in_row_ = enough ? 0 : short_in_row_ + 1;
  if (!refuses()) probe_timer_->Stop();
  if (on_wait_) on_wait_(took, enough);
}

void ReplicaConfirmation::PassAll(bool enough, const std::string& trouble) {
  for (core::StoreReply& reply : std::exchange(kept_, {})) {
    if (!enough && Promises(reply)) Doubt(reply, trouble);
    pass_(std::move(reply));
  }
}

// Whether the replicas are back.
void ReplicaConfirmation::Probe() {
  if (asked_ == 0) return Ask(nullptr);
  probe_timer_->Start(kProbeEvery);
}

void ReplicaConfirmation::Stop() { probe_timer_->Stop(); }

}  // namespace distlock::store
