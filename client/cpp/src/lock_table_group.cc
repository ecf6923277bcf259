// SPDX-License-Identifier: Apache-2.0
//
// The lock table: groups of acquires, which are all granted or all refused. A single acquire is a group of one.
#include "lock_table.h"

namespace distlock::internal {
namespace {

std::optional<Refusal> FindProblem(const std::vector<std::shared_ptr<const Spec>>& specs) {
  for (const auto& spec : specs) {
    if (spec->problem) return spec->problem;
  }
  return std::nullopt;
}

size_t BytesOf(const std::vector<std::shared_ptr<const Spec>>& specs) {
  size_t bytes = 0;
  for (const auto& spec : specs) bytes += spec->wire_bytes;
  return bytes;
}

}  // namespace

LeasePtr LockTable::AcquireAll(const std::vector<std::shared_ptr<const Spec>>& specs, std::optional<Duration> max_wait,
                               std::vector<LockCallback> callbacks, int64_t now_ns, Effects& fx) {
  const Lease::Group group{next_id_, static_cast<int64_t>(specs.size())};
  next_id_ += group.size;
  std::vector<LeasePtr> parts;
  for (size_t i = 0; i < specs.size(); ++i) {
    parts.push_back(std::make_shared<Lease>(group.first + static_cast<int64_t>(i), specs[i], group));
    parts[i]->callback = std::move(callbacks[i]);
    parts[i]->asked_ns = now_ns;
  }
  std::optional<Refusal> refusal = FindProblem(specs);
  const size_t bytes = BytesOf(specs);
  const Link& link = current();
  if (!refusal && link.opened && specs.size() > 1 && bytes > link.commands.batch_bytes()) refusal = TooLarge(bytes);
  if (closed_) refusal = ClosedRefusal();
  if (refusal) {
    for (const LeasePtr& part : parts) Refuse(*part, *refusal, fx);
    return parts.front();
  }
  for (const LeasePtr& part : parts) live_.emplace(part->id, part);
  Lease& leader = *parts.front();
  leader.one_try = max_wait && *max_wait <= Duration::zero();
  if (max_wait && !leader.one_try) leader.wait_until_ns = AddNs(now_ns, max_wait->count());
  if (!link.opened) leader.stranded_ns = now_ns;
  if (link.streaming && !link.leaving) Send(leader, now_ns);
  Reschedule(leader);
  return parts.front();
}

// Specs that are each within their limit can together exceed that of a message.
Refusal LockTable::TooLarge(size_t bytes) const {
  const size_t most = links_[static_cast<size_t>(present_)].commands.batch_bytes();
  Refusal refusal{.reason = RefusalReason::kInvalidArgument,
                  .message = "the locks take " + std::to_string(bytes) + " bytes together, of at most " +
                             std::to_string(most) + "; ask for fewer, or shorten their metadata"};
  refusal.field_problems.push_back({"acquire.locks", refusal.message});
  return refusal;
}

void LockTable::SendHeldBack(int64_t now_ns, Effects& fx) {
  if (!current().opened || current().leaving) return;
  std::vector<LeasePtr> leaders;
  for (const auto& [id, lease] : live_) {
    if (lease->phase == Lease::Phase::kWaiting && lease->link == nullptr && lease->leads()) leaders.push_back(lease);
  }
  for (const LeasePtr& leader : leaders) {
    Send(*leader, now_ns);
    if (leader->link != nullptr || HeldElsewhere(*leader)) continue;
    size_t bytes = 0;
    for (const LeasePtr& part : GroupOf(*leader)) bytes += part->spec->wire_bytes;
    RefuseGroup(*leader, TooLarge(bytes), fx);
  }
}

// The members of the lease's group that have not ended.
std::vector<LeasePtr> LockTable::GroupOf(const Lease& lease) const {
  std::vector<LeasePtr> parts;
  for (auto it = live_.lower_bound(lease.group.first);
       it != live_.end() && it->first < lease.group.first + lease.group.size; ++it) {
    parts.push_back(it->second);
  }
  return parts;
}

// REQUIRES: the group is not answered yet.
Lease& LockTable::LeaderOf(Lease& lease) const {
  const LeasePtr leader = lease.leads() ? nullptr : Find(lease.group.first);
  return leader == nullptr ? lease : *leader;
}

// Refuses the rest of a group. Members that the broker has granted are released. Members that it may still grant stay
// in the table, marked as abandoned, until it has answered.
void LockTable::RefuseGroup(const Lease& lease, const Refusal& refusal, Effects& fx) {
  for (const LeasePtr& part : GroupOf(lease)) {
    if (part->link != nullptr && part->phase == Lease::Phase::kWaiting) {
      part->abandoned = true;
      if (part->callback) fx.refused.emplace_back(std::move(part->callback), refusal);
      part->callback = nullptr;
      Schedule(*part, kNever);
      continue;
    }
    if (part->phase == Lease::Phase::kGranted) part->link->commands.Release(next_id_++, part->id);
    Refuse(*part, refusal, fx);
    live_.erase(part->id);
  }
}

// Hands out the lease's whole group once each member is granted and its deadline has not passed.
void LockTable::DeliverGroup(const LeasePtr& lease, int64_t now_ns, Effects& fx) {
  if (lease->group.size == 1) {
    if (lease->belief.Deliver(now_ns)) Deliver(lease, fx);
    return;
  }
  const std::vector<LeasePtr> parts = GroupOf(*lease);
  for (const LeasePtr& part : parts) {
    if (part->phase != Lease::Phase::kGranted || now_ns >= part->belief.deadline_ns()) return;
  }
  for (const LeasePtr& part : parts) {
    part->belief.Deliver(now_ns);
    Deliver(part, fx);
  }
}

}  // namespace distlock::internal
