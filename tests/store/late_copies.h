// SPDX-License-Identifier: Apache-2.0
//
// The late copies of each type of command. A new type does not compile here until it says what its late copy is.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/messages.h"
#include "store/redlock/ballot/messages.h"

namespace distlock::store::late_copies {

using ballot::Marks;
using ballot::Place;
using core::Duration;
using core::OwnerId;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr int64_t kStart = 1'700'000'000'000'000;
inline constexpr Duration kMostLate = seconds(20);  // as in the simulations
inline constexpr Place kFirst = 1'600'000'000'000'000, kSecond = kFirst + 1000;

// Requests are told apart by their places here.
inline uint64_t MarkOf(Place place) { return static_cast<uint64_t>(place); }
inline core::LockName TheLock() { return core::LockName::Encode("default", "k"); }
// The first byte tells which kind of owner it is.
inline OwnerId OwnerOf(uint8_t kind, uint8_t number) {
  OwnerId owner{};
  owner.front() = kind;
  owner.back() = number;
  return owner;
}

// The token of the hold that the owner has or has had, or 0 while it waits.
struct Had {
  OwnerId owner{};
  uint64_t token = 0;
  core::Instant run_before{};
};

// ---- The late copy of each command: about what the owner had first.

template <typename Command>
std::vector<Command> CopiesOf(const Had& had);

template <>
inline std::vector<core::StoreAcquire> CopiesOf(const Had& had) {
  core::StoreAcquire acquire{.name = TheLock(), .owner = had.owner, .ttl = seconds(9), .run_before = had.run_before};
  core::StoreAcquire waits = acquire;
  waits.wait = true;
  return {acquire, waits};
}
template <>
inline std::vector<core::StoreAcquireAll> CopiesOf(const Had& had) {
  return {{.run_before = had.run_before, .items = CopiesOf<core::StoreAcquire>(had)}};
}
template <>
inline std::vector<core::StoreRenew> CopiesOf(const Had& had) {
  core::StoreRenew ours{.op = 0,
                        .items = {{.name = TheLock(), .owner = had.owner, .token = had.token, .ttl = seconds(9)}}};
  core::StoreRenew callers = ours;
  callers.items.front().ours = false;
  return had.token == 0 ? std::vector<core::StoreRenew>{} : std::vector{ours, callers};
}
template <>
inline std::vector<core::StoreRelease> CopiesOf(const Had& had) {
  core::StoreRelease release{.name = TheLock(), .owner = had.owner, .token = had.token};
  core::StoreRelease blocks = release, ends = release;
  blocks.block = seconds(5);
  ends.ends_min_hold = true;
  return had.token == 0 ? std::vector<core::StoreRelease>{} : std::vector{release, blocks, ends};
}
template <>
inline std::vector<core::StoreWithdraw> CopiesOf(const Had& had) {
  core::StoreWithdraw withdraw{.name = TheLock(), .owner = had.owner, .run_before = had.run_before};
  core::StoreWithdraw spares = withdraw;
  spares.keep_grant = true;
  return {withdraw, spares};
}
template <>
inline std::vector<core::StoreTend> CopiesOf(const Had& had) {
  return {{.name = TheLock(), .asked = {had.owner}}};
}
template <>
inline std::vector<core::StoreWatch> CopiesOf(const Had&) {
  return {{.name = TheLock()}};
}
template <>
inline std::vector<core::StoreDowngrade> CopiesOf(const Had& had) {
  if (had.token == 0) return {};
  return {{.name = TheLock(), .owner = had.owner, .token = had.token}};
}
template <>
inline std::vector<core::StoreForce> CopiesOf(const Had& had) {
  if (had.token == 0) return {};
  return {{.name = TheLock(), .owner = had.owner, .token = had.token}};
}
template <>
inline std::vector<core::StoreAdopt> CopiesOf(const Had& had) {
  if (had.token == 0) return {};
  return {{.name = TheLock(),
           .from = had.owner,
           .token = had.token,
           .owner = OwnerOf(1, 77),
           .run_before = had.run_before}};
}
template <>
inline std::vector<core::StoreWanted> CopiesOf(const Had& had) {
  if (had.token == 0) return {};
  return {{.name = TheLock(), .owner = had.owner, .token = had.token, .through = 0xb2}};
}
inline ballot::Spec SpecOf(const Had& had, Place place) {
  return {
      .name = TheLock(), .owner = had.owner, .ttl = seconds(60), .info = "i", .place = place, .mark = MarkOf(place)};
}
// As high as another server may have made it necessary.
inline uint64_t Raised(const Had& had) { return had.token + 3'600'000'000; }

template <>
inline std::vector<ballot::AskVote> CopiesOf(const Had& had) {
  ballot::AskVote ask{.spec = SpecOf(had, kFirst),
                      .run_before = had.run_before,
                      .least_token = kStart,
                      .marks = Marks::Of(MarkOf(kFirst))};
  ballot::AskVote waits = ask, takes = ask;
  waits.wait = true;
  takes.found = had.token;
  return {ask, waits, takes};
}
template <>
inline std::vector<ballot::ConfirmVote> CopiesOf(const Had& had) {
  return {{TheLock(), had.owner, Marks::Of(MarkOf(kFirst)), Raised(had), seconds(60)}};
}
template <>
inline std::vector<ballot::JoinGrant> CopiesOf(const Had& had) {
  if (had.token == 0) return {};
  return {{SpecOf(had, kFirst), had.token, Raised(had), had.run_before}};
}
template <>
inline std::vector<ballot::YieldVote> CopiesOf(const Had& had) {
  return {{SpecOf(had, kFirst), had.token, true, kStart, Marks::Of(MarkOf(kFirst))}};
}
template <>
inline std::vector<ballot::ReleaseNamed> CopiesOf(const Had& had) {
  ballot::ReleaseNamed owed{
      .name = TheLock(), .owner = had.owner, .marks = Marks::Of(MarkOf(kFirst)), .least_token = kStart};
  ballot::ReleaseNamed release = owed, blocks = owed, withdrawal = owed, keeps = owed;
  release.token = blocks.token = keeps.token = had.token;
  keeps.ends_min_hold = false;
  blocks.block = seconds(5);
  withdrawal.keep_grant = true;
  return {owed, release, blocks, withdrawal, keeps};
}

}  // namespace distlock::store::late_copies
