// SPDX-License-Identifier: Apache-2.0
#include "core/renewals.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

void Renewals::Schedule(Lease& lease, Instant sent) {
  const double jitter = 1.0 - kRenewJitter * core_.random.Next();
  const auto wait = static_cast<int64_t>(static_cast<double>(lease.ttl.count()) * core_.config.renew_fraction * jitter);
  const int64_t grid = std::clamp<Duration>(lease.ttl / 30, Duration(1), kRenewGrid).count();
  // Brokers on one machine share its clock; each has a phase of its own, so that they do not all renew at the same
  // time.
  const auto phase = static_cast<int64_t>(core_.config.seed % static_cast<uint64_t>(grid));
  const int64_t at = (sent + Duration(wait)).time_since_epoch().count() - phase;
  lease.next_renew = Instant(Duration((at + grid - 1) / grid * grid + phase));
}

void Renewals::Enqueue(Lease& lease) {
  if (std::exchange(lease.renew_due, true)) return;
  lease.due_place = due_from_ + due_.size();
  due_.push_back(&lease);
}

void Renewals::Remove(const Lease& lease) {
  if (lease.renew_due) due_[lease.due_place - due_from_] = nullptr;
}

Lease* Renewals::PopDue() {
  while (!due_.empty()) {
    Lease* const lease = due_.front();
    due_.pop_front();
    ++due_from_;
    if (lease == nullptr) continue;
    lease->renew_due = false;
    lease->renew_op = 0;
    if (!lease->ending) return lease;
  }
  return nullptr;
}

void Renewals::Send() {
  DISTLOCK_CHECK(core_.store_up);
  std::erase_if(sent_, [this](const Sent& sent) { return sent.until <= core_.now; });
  while (!due_.empty() && sent_.size() < kMaxRenewalsSent) SendOne();
  if (due_.empty()) return StopPacing();
  core_.Arm(pace_.next, sent_.front().until);
}

void Renewals::SendOne() {
  Op op{.sender = &leases_};
  StoreRenew batch;
  const size_t most = std::min(due_.size(), kMaxRenewBatch);
  op.owners.reserve(most);
  batch.items.reserve(most);
  batch.op = core_.NextOp();
  while (batch.items.size() < kMaxRenewBatch) {
    Lease* const lease = PopDue();
    if (lease == nullptr) break;
    lease->renew_op = batch.op;
    op.owners.push_back(lease->owner);
    batch.items.push_back(
        RenewItem{.name = lease->name, .owner = lease->owner, .token = lease->token, .ttl = lease->ttl});
  }
  if (batch.items.empty()) return;
  core_.SendOp(std::move(op));
  sent_.push_back({batch.op, core_.now + kRenewPace});
  core_.Command(std::move(batch));
}

void Renewals::OnAnswered(OpId id, std::string trouble) {
  trouble_ = std::move(trouble);
  std::erase_if(sent_, [id](const Sent& sent) { return sent.op == id; });
}

size_t Renewals::Check() const {
  for (size_t i = 0; i < due_.size(); ++i) {
    DISTLOCK_CHECK(due_[i] == nullptr || (due_[i]->renew_due && due_[i]->due_place == due_from_ + i));
  }
  DISTLOCK_CHECK(sent_.size() <= kMaxRenewalsSent);
  DISTLOCK_CHECK(due_.empty() || (core_.store_up && pace_.next.at != kNever));
  return pace_.Check();
}

std::string Renewals::Trouble() const { return core_.WhyNoAnswer(trouble_, "no answer from the store"); }

}  // namespace distlock::core
