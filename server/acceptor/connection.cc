// SPDX-License-Identifier: Apache-2.0
#include "acceptor/connection.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace distlock::acceptor {

Connection::Connection(uint64_t id_in, Kind kind_in, std::string address_in, std::string peer_in,
                       std::optional<Credentials> who_in, int watched, const CallBudget& budget, Observer* observer)
    : id(id_in),
      kind(kind_in),
      address(std::move(address_in)),
      peer(std::move(peer_in)),
      who(std::move(who_in)),
      budget_(budget),
      observer_(observer),
      watched_(watched),
      early_cancels_(budget.early_cancels_per_second, budget.early_cancels_at_once),
      debt_(budget.unused_bytes_per_second) {}

Connection::~Connection() {
  if (watched_ >= 0) close(watched_);
}

void Connection::Cut(CutCause why) {
  {
    std::lock_guard lock(mu_);
    if (watched_ < 0 || cut_.exchange(true, std::memory_order_relaxed)) return;
    shutdown(watched_, SHUT_RDWR);
  }
  if (observer_ != nullptr) observer_->OnCut(why, address);
}

void Connection::OnCall(size_t bytes) {
  used_bytes_.fetch_add(static_cast<int64_t>(bytes) + budget_.call_bytes + budget_.message_bytes,
                        std::memory_order_relaxed);
  if (open_calls_.fetch_add(1, std::memory_order_relaxed) >= budget_.open_calls) Cut(CutCause::kOpenCalls);
}

void Connection::OnCallOver(bool early, Clock::time_point now) {
  open_calls_.fetch_sub(1, std::memory_order_relaxed);
  if (!early) return;
  used_bytes_.fetch_sub(budget_.call_bytes, std::memory_order_relaxed);
  bool too_many = false;
  {
    std::lock_guard lock(mu_);
    too_many = !early_cancels_.Take(now) && !IsLeaving();
  }
  if (too_many) Cut(CutCause::kEarlyCancels);
}

bool Connection::IsLeaving() const {
  pollfd at{.fd = watched_, .events = POLLRDHUP, .revents = 0};
  return watched_ < 0 || poll(&at, 1, 0) > 0;
}

int64_t Connection::BytesThatCame() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(watched_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return -1;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)) return -1;
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

void Connection::CheckBytes(Clock::time_point now) {
  if (kind == Kind::kUnix || watched_ < 0 || was_cut()) return;
  const int64_t used_before = used_bytes_.load(std::memory_order_acquire);
  const int64_t came = BytesThatCame();
  if (came < 0) return;
  const int64_t owed = debt_.Look(now, used_before, came, used_bytes_.load(std::memory_order_relaxed));
  const int64_t most = MostUnused();
  if (owed <= most) return;
  // Bytes that wait in the kernel cost nothing yet: this process may have been stopped for a while.
  int waiting = 0;
  if (ioctl(watched_, FIONREAD, &waiting) == 0 && owed - waiting <= most) return;
  Cut(CutCause::kUnusedBytes);
}

int64_t Connection::MostUnused() const {
  const int calls = std::clamp(open_calls_.load(std::memory_order_relaxed), 0, budget_.unread_calls);
  return budget_.unused_bytes_at_once + calls * budget_.unread_bytes;
}

bool Connection::is_closed() const {
  std::lock_guard lock(mu_);
  return watched_ < 0;
}

void Connection::WithSocket(const std::function<void(int socket)>& use) const {
  std::lock_guard lock(mu_);
  if (watched_ >= 0) use(watched_);
}

void Connection::Close() {
  std::lock_guard lock(mu_);
  if (watched_ >= 0) close(std::exchange(watched_, -1));
}

}  // namespace distlock::acceptor
