// SPDX-License-Identifier: Apache-2.0
#include "main/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace distlock {
namespace {

std::string Taken(const char* variable) {
  const char* value = getenv(variable);
  std::string taken = value == nullptr ? "" : value;
  unsetenv(variable);
  return taken;
}

}  // namespace

Supervisor::Supervisor() : address_(Taken("NOTIFY_SOCKET")) {
  const std::string microseconds = Taken("WATCHDOG_USEC");
  const std::string pid = Taken("WATCHDOG_PID");
  sockaddr_un where{};
  if (address_.size() >= sizeof(where.sun_path) || (address_[0] != '/' && address_[0] != '@')) address_.clear();
  if (address_.empty()) return;
  if (address_[0] == '@') address_[0] = '\0';  // an abstract socket
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int64_t wanted = 0;
  const bool is_for_us = pid.empty() || pid == absl::StrCat(getpid());
  watches_ = is_for_us && absl::SimpleAtoi(microseconds, &wanted) && wanted > 0;
}

Supervisor::~Supervisor() {
  if (socket_ >= 0) close(socket_);
}

void Supervisor::Tell(std::string_view what, std::string_view value) const {
  if (socket_ < 0) return;
  const std::string message = std::string(what) + std::string(value);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  // A supervisor that does not read must not hold the broker up.
  sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
         reinterpret_cast<const sockaddr*>(&where), size);
}

void Watchdog::Feed() {
  if (!supervisor_.watches() || *awaited_ > 0 || !server_.DeadListener().empty()) return;
  supervisor_.Alive();
  *awaited_ = 2;
  const auto come = [awaited = awaited_] { --*awaited; };
  shards_.AfterTurns(come);
  server_.AfterTurns(come);
}

}  // namespace distlock
