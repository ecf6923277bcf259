// SPDX-License-Identifier: Apache-2.0
//
// How near honest clients come to the budget of frames that carry nothing (deploy/grpc). A library for LD_PRELOAD that
// reads along what gRPC receives in plain text, in any distlockd, and counts as the hardened one does. When the process
// ends it appends to the file that DISTLOCK_FRAME_METER names, for each account of the budget, as JSON: the frames; the
// greatest share of what a second allows that one connection has sent in one second; and the greatest share of what may
// come at once that one had used. The broker's own test of gRPC counts, with four CONTINUATION frames. For run.sh
// let DISTLOCKD name a script that runs
//   env LD_PRELOAD=libdistlock_frame_meter.so DISTLOCK_FRAME_METER=FILE distlockd "$@"
//
// Thread: any; one lock.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <string_view>

#include "frame_budget.h"

namespace {

using distlock_grpc::FrameBudget;
using distlock_grpc::Kind;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kHead = 9;
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr std::array<const char*, FrameBudget::kAccounts> kAccountNames = {"control", "ping", "hasty reset", "reset",
                                                                           "continuation"};

double Share(int64_t part, int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

struct Account {
  int64_t frames = 0;
  double rate_used = 0;   // 1: as many in a second as it may send for ever
  double burst_used = 0;  // 1: the next frame is one too many
};

class Connection {
 public:
  void Read(const uint8_t* bytes, size_t size, int64_t now, std::array<Account, FrameBudget::kAccounts>& accounts) {
    while (size > 0 && is_http2_) {
      const size_t used = preface_ < kPreface.size() ? ReadPreface(*bytes) : ReadFrame(bytes, size, now, accounts);
      bytes += used;
      size -= used;
    }
  }

 private:
  size_t ReadPreface(uint8_t byte) {
    is_http2_ = static_cast<char>(byte) == kPreface[preface_++];
    return 1;
  }

  size_t ReadFrame(const uint8_t* bytes, size_t size, int64_t now,
                   std::array<Account, FrameBudget::kAccounts>& accounts) {
    if (body_ > 0) {
      const size_t skipped = std::min(body_, size);
      body_ -= skipped;
      return skipped;
    }
    head_[have_++] = *bytes;
    if (have_ < kHead) return 1;
    have_ = 0;
    const auto at = [this](size_t i) { return static_cast<uint32_t>(head_[i]); };
    const uint32_t length = at(0) << 16 | at(1) << 8 | at(2);
    const uint32_t stream = (at(5) & 127) << 24 | at(6) << 16 | at(7) << 8 | at(8);
    body_ = length;
    const bool opens = stream > last_stream_;
    const Kind kind = distlock_grpc::KindOf(head_[3], length, opens, opens ? 0 : (last_stream_ - stream) / 2);
    if (head_[3] == 1 && opens) last_stream_ = stream;
    if (kind != Kind::kFree) Count(FrameBudget::PriceOf(kind), now, accounts);
    return 1;
  }

  void Count(const FrameBudget::Price& price, int64_t now, std::array<Account, FrameBudget::kAccounts>& accounts) {
    Own& own = own_[static_cast<size_t>(price.account)];
    Account& account = accounts[static_cast<size_t>(price.account)];
    own.paid_at = std::max(own.paid_at, now) + price.each_ns;
    if (now - own.second >= kSecondNs) own = {.paid_at = own.paid_at, .second = now, .price = 0};
    own.price += price.each_ns;
    ++account.frames;
    account.rate_used = std::max(account.rate_used, Share(own.price, kSecondNs));
    account.burst_used = std::max(account.burst_used, Share(own.paid_at - now, price.most_ns));
  }

  struct Own {
    int64_t paid_at = 0;
    int64_t second = 0;  // when the second began that is counted
    int64_t price = 0;   // of the frames in it
  };
  bool is_http2_ = true;
  size_t preface_ = 0;
  size_t have_ = 0;
  std::array<uint8_t, kHead> head_{};
  size_t body_ = 0;
  uint32_t last_stream_ = 0;
  std::array<Own, FrameBudget::kAccounts> own_{};
};

class Meter {
 public:
  ~Meter() {
    const char* const path = std::getenv("DISTLOCK_FRAME_METER");
    std::FILE* const out = path == nullptr ? nullptr : std::fopen(path, "a");
    if (out == nullptr) return;
    const std::lock_guard lock(mu_);
    const char* between = "{";
    for (size_t i = 0; i < accounts_.size(); ++i) {
      const Account& account = accounts_[i];
      std::fprintf(out, R"(%s"%s": {"frames": %lld, "of a second": %.4f, "at once": %.4f})", between, kAccountNames[i],
                   static_cast<long long>(account.frames), account.rate_used, account.burst_used);
      between = ", ";
    }
    std::fputs("}\n", out);
    std::fclose(out);
  }

  void Read(int socket, const msghdr& message, size_t size) {
    const int64_t now = NowNs();
    const std::lock_guard lock(mu_);
    Connection& connection = connections_[socket];
    for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
      const size_t part = std::min(size, message.msg_iov[i].iov_len);
      connection.Read(static_cast<const uint8_t*>(message.msg_iov[i].iov_base), part, now, accounts_);
      size -= part;
    }
  }

  void Close(int socket) {
    const std::lock_guard lock(mu_);
    connections_.erase(socket);
  }

 private:
  std::mutex mu_;
  std::map<int, Connection> connections_;  // by descriptor
  std::array<Account, FrameBudget::kAccounts> accounts_{};
};

Meter& TheMeter() {
  static Meter meter;
  return meter;
}

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static const auto real = Real<ssize_t (*)(int, msghdr*, int)>("recvmsg");
  const ssize_t got = real(socket, message, flags);
  if (got > 0 && (flags & (MSG_PEEK | MSG_ERRQUEUE)) == 0) TheMeter().Read(socket, *message, static_cast<size_t>(got));
  return got;
}

extern "C" int close(int descriptor) {
  static const auto real = Real<int (*)(int)>("close");
  TheMeter().Close(descriptor);
  return real(descriptor);
}
