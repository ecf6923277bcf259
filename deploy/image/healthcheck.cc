// SPDX-License-Identifier: Apache-2.0
//
// The image's HEALTHCHECK: exits with 0 while the broker is alive, else with 1. The state of its store does not matter:
// a restart would end locks that survive an outage of the store. Asks /healthz at DISTLOCK_HTTP; a broker without HTTP
// is asked by `distlockctl status`, which says something on stdout whenever the broker answers. Ends within 5 s.
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

constexpr timeval kPatience = {.tv_sec = 2, .tv_usec = 0};

// The address at which a broker that listens on `http` can be asked from within its container.
bool Split(const std::string& http, std::string* host, std::string* port) {
  const size_t colon = http.rfind(':');
  if (colon == http.npos) return false;
  *host = http.substr(0, colon);
  *port = http.substr(colon + 1);
  if (host->size() > 1 && host->front() == '[') *host = host->substr(1, host->size() - 2);
  if (host->empty() || *host == "0.0.0.0") *host = "127.0.0.1";
  if (*host == "::") *host = "::1";
  return true;
}

bool AnswersOk(int fd) {
  constexpr char kRequest[] = "GET /healthz HTTP/1.0\r\n\r\n";
  if (send(fd, kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(kRequest) - 1))
    return false;
  std::string status;
  char byte = 0;
  while (status.size() < 64 && recv(fd, &byte, 1, 0) == 1 && byte != '\n') status += byte;
  return status.find(" 200 ") != status.npos;
}

bool HealthyByHttp(const std::string& http) {
  std::string host;
  std::string port;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (!Split(http, &host, &port) || getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return false;
  bool healthy = false;
  for (const addrinfo* at = found; at != nullptr && !healthy; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));  // of connect, too
    healthy = connect(fd, at->ai_addr, at->ai_addrlen) == 0 && AnswersOk(fd);
    close(fd);
  }
  freeaddrinfo(found);
  return healthy;
}

bool HealthyByStatus() {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const char* const args[] = {"distlockctl", "status", "--connect-timeout", "2s", nullptr};
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, args[0], &actions, nullptr, const_cast<char* const*>(args), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  char byte = 0;
  const bool said = failed == 0 && read(out[0], &byte, 1) == 1;
  close(out[0]);
  if (failed == 0) waitpid(pid, nullptr, 0);
  return said;
}

}  // namespace

int main() {
  const char* set = getenv("DISTLOCK_HTTP");
  const std::string http = set == nullptr ? "127.0.0.1:9420" : set;
  if (!http.empty()) return HealthyByHttp(http) ? EXIT_SUCCESS : EXIT_FAILURE;
  return HealthyByStatus() ? EXIT_SUCCESS : EXIT_FAILURE;
}
