// SPDX-License-Identifier: Apache-2.0
//
// What the frames of a connection that carry nothing may cost: so many a second, and so many at once. Compiled into
// gRPC's parser by parsing.patch, in C++14, without gRPC's or our own headers.
//
// The parser's own object of a connection cannot grow, because the rest of gRPC is compiled elsewhere. Hence a table by
// its address. A connection whose budget is full again has no entry, which is almost always so for honest ones.
//
// Thread: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace distlock_grpc {

enum class Kind {
  kFree,       // bounded by what it carries or opens
  kControl,    // SETTINGS, PRIORITY, GOAWAY, unknown ones, empty DATA, headers that open no stream
  kSmallData,  // DATA with hardly more than its frame
  kWindow,     // WINDOW_UPDATE, of which gRPC's clients send two for each message that they read
  kPing,
  kHastyReset,  // of a stream that was opened a moment ago
  kReset,
  kContinuation,
};

constexpr uint32_t kSmallDataBytes = 32;

// Whoever gives up all of its open calls at once resets streams that are mostly older than this many others.
constexpr uint32_t kHasty = 500;

// `opens`: the frame is HEADERS of a stream that has not been before. `younger`: how many streams were opened after the
// one that the frame is about.
inline Kind KindOf(uint8_t type, uint32_t size, bool opens, uint32_t younger) {
  switch (type) {
    case 0:
      return size == 0 ? Kind::kControl : size < kSmallDataBytes ? Kind::kSmallData : Kind::kFree;
    case 1:
      return opens ? Kind::kFree : Kind::kControl;
    case 3:
      return younger < kHasty ? Kind::kHastyReset : Kind::kReset;
    case 6:
      return Kind::kPing;
    case 8:
      return Kind::kWindow;
    case 9:
      return Kind::kContinuation;
    default:
      return Kind::kControl;
  }
}

class FrameBudget {
 public:
  // What is counted together.
  enum { kControls, kPings, kHastyResets, kResets, kContinuations, kAccounts };

  struct Price {
    int account;
    int64_t each_ns;  // 1e9 / frames a second
    int64_t most_ns;  // each_ns * frames at once
  };

  // Of a kind that is not free.
  static Price PriceOf(Kind kind) {
    constexpr int64_t kMillisecond = 1000000;
    constexpr int64_t kControlNs = 50000;
    constexpr int64_t kControlMost = 20000 * kControlNs;
    switch (kind) {
      case Kind::kSmallData:
        return {kControls, kControlNs / 8, kControlMost};
      case Kind::kWindow:
        return {kControls, kControlNs / 10, kControlMost};
      case Kind::kPing:
        return {kPings, kControlNs, 1000 * kControlNs};
      case Kind::kHastyReset:
        return {kHastyResets, 2 * kMillisecond, 1000 * 2 * kMillisecond};
      case Kind::kReset:
        return {kResets, kMillisecond, 4000 * kMillisecond};
      case Kind::kContinuation:
        return {kContinuations, kMillisecond, 128 * kMillisecond};
      default:
        return {kControls, kControlNs, kControlMost};
    }
  }

  // Whether `connection` may send one more frame of that kind. `now_ns`: of a monotonic clock.
  bool Afford(const void* connection, Kind kind, int64_t now_ns) {
    if (kind == Kind::kFree) return true;
    const Price price = PriceOf(kind);
    Row& row = RowOf(connection);
    std::lock_guard<std::mutex> lock(row.mu);
    Entry& entry = EntryOf(row, connection, now_ns);
    // The time at which everything sent so far is paid for.
    int64_t& paid_at = entry.paid_at[price.account];
    const int64_t next = std::max(paid_at, now_ns) + price.each_ns;
    if (next - now_ns > price.most_ns) return false;
    paid_at = next;
    return true;
  }

  // A new connection has this address now.
  void Forget(const void* connection) {
    Row& row = RowOf(connection);
    std::lock_guard<std::mutex> lock(row.mu);
    for (Entry& entry : row.entries) {
      if (entry.connection == connection) entry = Entry();
    }
  }

 private:
  static constexpr size_t kRows = 1024;
  static constexpr size_t kEntries = 8;
  struct Entry {
    const void* connection = nullptr;
    int64_t paid_at[kAccounts] = {};
  };
  struct Row {
    std::mutex mu;
    Entry entries[kEntries];  // guarded by mu
  };

  Row& RowOf(const void* connection) {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(connection) * UINT64_C(0x9E3779B97F4A7C15);
    return rows_[mixed >> 54];
  }

  // Its own; else one that says nothing any more; else the first, which is then shared.
  static Entry& EntryOf(Row& row, const void* connection, int64_t now_ns) {
    Entry* unused = nullptr;
    for (Entry& entry : row.entries) {
      if (entry.connection == connection) return entry;
      if (unused != nullptr) continue;
      const int64_t last = *std::max_element(entry.paid_at, entry.paid_at + kAccounts);
      if (last <= now_ns) unused = &entry;
    }
    if (unused == nullptr) return row.entries[0];
    *unused = Entry();
    unused->connection = connection;
    return *unused;
  }

  Row rows_[kRows];
};

// Set where the parser refuses a connection for what it sends too much of, and taken where the parser returns.
inline bool& Excess() {
  static thread_local bool excess = false;
  return excess;
}

// In a call of gRPC's `error`: notes the excess, and is `error`.
template <typename Error>
Error TooMuch(Error error) {
  Excess() = true;
  return error;
}

}  // namespace distlock_grpc

// Calls `hear` from now on with the peer (as ServerContext::peer) of each connection that is refused so, on the thread
// that reads it. Defined in the patched parser.
extern "C" void distlock_grpc_on_excess(void (*hear)(const char* peer));
