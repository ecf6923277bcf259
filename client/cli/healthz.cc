// SPDX-License-Identifier: Apache-2.0
#include "healthz.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <string_view>

namespace distlock::cli {
namespace {

constexpr timeval kPatience = {.tv_sec = 2, .tv_usec = 0};

// An address for all interfaces leads to this machine.
std::string HostOf(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host.empty() || host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : std::string(host);
}

bool AnswersOk(int fd) {
  constexpr std::string_view kRequest = "GET /healthz HTTP/1.0\r\n\r\n";
  if (send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kRequest.size())) return false;
  std::string status;
  char byte = 0;
  while (status.size() < 64 && recv(fd, &byte, 1, 0) == 1 && byte != '\n') status += byte;
  return status.find(" 200 ") != std::string::npos;
}

bool IsHealthyAt(const addrinfo& at) {
  const int fd = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));  // of connect, too
  const bool healthy = connect(fd, at.ai_addr, at.ai_addrlen) == 0 && AnswersOk(fd);
  close(fd);
  return healthy;
}

}  // namespace

bool IsHealthy(const std::string& http) {
  const size_t colon = http.rfind(':');
  if (colon == std::string::npos) return false;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(HostOf(http.substr(0, colon)).c_str(), http.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (IsHealthyAt(*at)) return true;
  }
  return false;
}

}  // namespace distlock::cli
