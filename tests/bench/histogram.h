// SPDX-License-Identifier: Apache-2.0
//
// Durations in buckets of at most 0.8 % width, from a nanosecond to hours. Recording is one increment, and histograms
// can be merged. Not thread-safe: each worker has its own, merged when the worker has stopped.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace distlock::bench {

class Histogram {
 public:
  void Record(int64_t nanos) {
    ++buckets_[Index(nanos < 0 ? 0 : static_cast<uint64_t>(nanos))];
    ++count_;
  }

  void Merge(const Histogram& other) {
    for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
  }

  uint64_t count() const { return count_; }

  // The value that a fraction of `part` (0..1) of the recorded durations do not exceed, in microseconds; 0 when nothing
  // was recorded.
  double Micros(double part) const {
    if (count_ == 0) return 0;
    const auto wanted = static_cast<uint64_t>(part * static_cast<double>(count_ - 1)) + 1;
    uint64_t seen = 0;
    size_t i = 0;
    while (i + 1 < buckets_.size() && (seen += buckets_[i]) < wanted) ++i;
    return Middle(i) / 1000.0;
  }

 private:
  static constexpr int kBits = 7;  // linear sub-buckets per power of two, as a power of two
  static constexpr uint64_t kLinear = uint64_t{1} << kBits;
  static constexpr size_t kBuckets = kLinear * 40;

  static size_t Index(uint64_t nanos) {
    if (nanos < kLinear) return nanos;
    const int shift = std::bit_width(nanos) - kBits - 1;
    const size_t index = kLinear * static_cast<size_t>(shift) + (nanos >> shift);
    return index < kBuckets ? index : kBuckets - 1;
  }

  static double Middle(size_t index) {
    if (index < kLinear) return static_cast<double>(index);
    const size_t shift = index / kLinear - 1;
    const auto low = static_cast<double>((index % kLinear + kLinear) << shift);
    return low + static_cast<double>(uint64_t{1} << shift) / 2;
  }

  std::vector<uint64_t> buckets_ = std::vector<uint64_t>(kBuckets);
  uint64_t count_ = 0;
};

}  // namespace distlock::bench
