// SPDX-License-Identifier: Apache-2.0
#include "history/names.h"

#include <array>

#include "core/types.h"

namespace distlock::sim {
namespace {

using Names = std::span<const std::string_view>;

}  // namespace

Names KindNames() {
  static constexpr std::array<std::string_view, 21> kNames = {
      "asked",      "gave_up", "moved_on", "refused", "granted",  "believes", "ended",
      "released",   "wrote",   "yields",   "queued",  "unqueued", "took",     "freed",
      "downgraded", "forced",  "fault",    "forgot",  "healed",   "quiet",    "left"};
  static_assert(static_cast<size_t>(RecordKind::kLeft) + 1 == kNames.size());
  return kNames;
}

Names EndedNames() {
  static constexpr std::array<std::string_view, 5> kNames = {"releasing", "lost", "stream_broke", "deadline",
                                                             "client_died"};
  static_assert(static_cast<size_t>(EndedWhy::kClientDied) + 1 == kNames.size());
  return kNames;
}

Names FreedNames() {
  static constexpr std::array<std::string_view, 4> kNames = {"released", "expired", "forgotten", "forced"};
  static_assert(static_cast<size_t>(FreedHow::kForced) + 1 == kNames.size());
  return kNames;
}

Names FaultNames() {
  static constexpr std::array<std::string_view, static_cast<size_t>(FaultKind::kCount)> kNames = {
      "client_killed", "client_paused", "client_clock",    "broker_killed",   "broker_paused", "broker_drained",
      "broker_clock",  "store_paused",  "store_restarted", "store_emptied",   "key_deleted",   "store_clock",
      "store_full",    "store_refuses", "failover",        "scripts_flushed", "link_reset",    "link_slow",
      "link_silent",   "link_one_way",  "channel_lost",    "notices_lost",    "promoted"};
  return kNames;
}

Names RefusalNames() {
  static constexpr std::array<std::string_view, core::kRefusalReasonCount> kNames = {
      "LOCK_HELD",         "WAIT_TIMEOUT",       "LEASE_LOST",    "NOT_HOLDER",      "LIMIT_MISMATCH",
      "FOREIGN_KEY",       "INVALID_ARGUMENT",   "NOT_SUPPORTED", "QUOTA_EXCEEDED",  "STORE_FULL",
      "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED", "DRAINING",      "UNAUTHENTICATED", "PERMISSION_DENIED",
      "CANCELLED",         "STORE_HOLD_OFF"};
  return kNames;
}

Names ReleaseNames() {
  static constexpr std::array<std::string_view, 3> kNames = {"RELEASED", "STILL_HELD", "ALREADY_GONE"};
  static_assert(static_cast<size_t>(core::ReleaseOutcome::kAlreadyGone) + 1 == kNames.size());
  return kNames;
}

Names LostNames() {
  static constexpr std::array<std::string_view, core::kLostReasonCount> kNames = {"EXPIRED",  "TAKEN",   "FORCED",
                                                                                  "MAX_HOLD", "DRAINED", "MOVED"};
  return kNames;
}

Names ActorKindNames() {
  static constexpr std::array<std::string_view, 4> kNames = {"client", "broker", "store", "link"};
  return kNames;
}

Names LookNames() {
  static constexpr std::string_view kNames[] = {"lock", "token", "list"};
  return kNames;
}

std::optional<uint8_t> ValueOf(Names names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<uint8_t>(i);
  }
  return std::nullopt;
}

}  // namespace distlock::sim
