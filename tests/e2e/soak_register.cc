// SPDX-License-Identifier: Apache-2.0
//
// The fenced store of a soak: for each lock it rejects writes with a smaller token than it has seen. It has one thread,
// so its records are in the order of its decisions.
#include "soak_register.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <sstream>

#include "soak_log.h"

namespace distlock::soak {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    std::fprintf(stderr, "%s: too long for a unix socket\n", path.c_str());
    std::_Exit(3);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::_Exit(3);
}

}  // namespace

int RunRegister(const std::string& path, const std::string& history) {
  SoakLog log(history, "register");
  const int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = AddressOf(path);
  if (sock < 0 || bind(sock, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) Fail(path.c_str());
  std::map<std::string, int64_t> seen;
  char buffer[512];
  while (true) {
    const ssize_t size = recv(sock, buffer, sizeof buffer, 0);
    if (size < 0) Fail("receiving a write");
    const int64_t now_ns = BootNow();
    std::istringstream write(std::string(buffer, static_cast<size_t>(size)));
    std::string actor;
    std::string lease;
    std::string lock;
    int64_t token = 0;
    write >> actor >> lease >> lock >> token;
    int64_t& greatest = seen[lock];
    const bool accepted = token >= greatest;
    if (accepted) greatest = token;
    log.Write(now_ns, "wrote",
              {{"actor", actor}, {"lease", lease}, {"lock", lock}, {"token", token}, {"accepted", accepted}});
  }
}

RegisterClient::RegisterClient(const std::string& path, std::string actor) : actor_(std::move(actor)) {
  sock_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = AddressOf(path);
  if (sock_ < 0 || connect(sock_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) Fail(path.c_str());
}

RegisterClient::~RegisterClient() { close(sock_); }

void RegisterClient::Write(const std::string& lease, const std::string& lock, int64_t token) {
  const std::string text = actor_ + " " + lease + " " + lock + " " + std::to_string(token);
  if (send(sock_, text.data(), text.size(), MSG_NOSIGNAL) < 0) Fail("writing to the register");
}

}  // namespace distlock::soak
