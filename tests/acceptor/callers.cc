// SPDX-License-Identifier: Apache-2.0
#include "acceptor/callers.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"

namespace distlock::acceptor {

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "distlock-acceptor-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

Folder::~Folder() { std::filesystem::remove_all(path_); }

bool Eventually(const std::function<bool()>& wanted) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (Clock::now() < deadline) {
    if (wanted()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

Fd Connect(const std::string& address) {
  sockaddr_storage where{};
  socklen_t size = 0;
  if (const std::string path = UnixPath(address); !path.empty()) {
    auto& at = reinterpret_cast<sockaddr_un&>(where);
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof(at.sun_path) - 1);
    size = sizeof(at);
  } else {
    auto& at = reinterpret_cast<sockaddr_in&>(where);
    at.sin_family = AF_INET;
    uint32_t port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
    at.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, address.substr(0, address.rfind(':')).c_str(), &at.sin_addr);
    size = sizeof(at);
  }
  Fd fd(socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), size) != 0) fd.Reset();
  return fd;
}

bool Say(const Fd& fd, std::string_view bytes) {
  return send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

bool IsClosed(const Fd& fd) {
  char byte = 0;
  const ssize_t got = recv(fd.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

void Counting::OnRefused(RefuseCause why, const std::string&) {
  std::lock_guard lock(mu_);
  ++refused_[why];
}

void Counting::OnCut(CutCause why, const std::string&) {
  std::lock_guard lock(mu_);
  ++cut_[why];
}

int Counting::refused(RefuseCause why) const {
  std::lock_guard lock(mu_);
  const auto found = refused_.find(why);
  return found == refused_.end() ? 0 : found->second;
}

int Counting::cut(CutCause why) const {
  std::lock_guard lock(mu_);
  const auto found = cut_.find(why);
  return found == cut_.end() ? 0 : found->second;
}

KeepingAcceptor::KeepingAcceptor(AcceptorOptions options) {
  options.observer = &observer_;
  auto opened = Acceptor::Open(std::move(options));
  if (!opened.ok()) {
    ADD_FAILURE() << opened.status();
    abort();
  }
  acceptor_ = *std::move(opened);
  acceptor_->Start([this](int fd, int, const Connection& connection) {
    std::lock_guard lock(mu_);
    fds_.push_back(fd);
    newest_ = connection.kind == Kind::kUnix ? "fd:" + std::to_string(fd) : connection.address;
  });
}

KeepingAcceptor::~KeepingAcceptor() {
  acceptor_->StopAccepting();
  CloseAll();
}

size_t KeepingAcceptor::given() const {
  std::lock_guard lock(mu_);
  return fds_.size();
}

int KeepingAcceptor::fd() const {
  std::lock_guard lock(mu_);
  return fds_.back();
}

std::shared_ptr<Connection> KeepingAcceptor::connection() const {
  std::lock_guard lock(mu_);
  return acceptor_->PeerOf(newest_);
}

void KeepingAcceptor::CloseAll() {
  std::lock_guard lock(mu_);
  for (const int fd : fds_) {
    shutdown(fd, SHUT_RDWR);
    close(fd);
  }
  fds_.clear();
}

}  // namespace distlock::acceptor
