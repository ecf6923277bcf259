// SPDX-License-Identifier: Apache-2.0
//
// Converts durations and times between the contract and <chrono>. Pure; any thread.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace distlock::wire {

// More than a century: longer than any sensible value, and short enough that in nanoseconds it can be added to a time.
inline constexpr int64_t kMostSeconds = 4'000'000'000;
inline constexpr int32_t kMostNanos = 999'999'999;

// Nanoseconds are kept; a negative duration has two negative parts.
inline google::protobuf::Duration ToProto(std::chrono::nanoseconds duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(duration.count() / 1'000'000'000);
  proto.set_nanos(static_cast<int32_t>(duration.count() % 1'000'000'000));
  return proto;
}

// For any value of the peer: 0 for a negative duration, at most kMostSeconds.
inline std::chrono::nanoseconds FromProto(const google::protobuf::Duration& proto) {
  if (proto.seconds() < 0 || proto.nanos() < 0) return {};
  return std::chrono::seconds(std::min(proto.seconds(), kMostSeconds)) +
         std::chrono::nanoseconds(std::min(proto.nanos(), kMostNanos));
}

// The same for a difference, which may be negative: between -kMostSeconds and kMostSeconds.
inline std::chrono::nanoseconds DifferenceFromProto(const google::protobuf::Duration& proto) {
  return std::chrono::seconds(std::clamp(proto.seconds(), -kMostSeconds, kMostSeconds)) +
         std::chrono::nanoseconds(std::clamp(proto.nanos(), -kMostNanos, kMostNanos));
}

// For any value of the peer: not before the epoch, and at most kMostSeconds after it.
inline std::chrono::system_clock::time_point FromProto(const google::protobuf::Timestamp& proto) {
  const auto since_epoch = std::chrono::seconds(std::clamp<int64_t>(proto.seconds(), 0, kMostSeconds)) +
                           std::chrono::nanoseconds(std::clamp<int32_t>(proto.nanos(), 0, kMostNanos));
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch));
}

}  // namespace distlock::wire
