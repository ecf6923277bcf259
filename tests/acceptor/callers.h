// SPDX-License-Identifier: Apache-2.0
//
// For tests of the acceptor: a temporary folder, client sockets, and an acceptor that keeps what it is given.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "acceptor/acceptor.h"

namespace distlock::acceptor {

inline constexpr std::string_view kHttp2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class Folder {
 public:
  Folder();
  ~Folder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// True as soon as `wanted` is; false after ten seconds.
bool Eventually(const std::function<bool()>& wanted);

// Connects to unix:///path or ipv4 host:port; -1 with errno when it cannot.
Fd Connect(const std::string& address);
bool Say(const Fd& fd, std::string_view bytes);
// The other side has closed it, or reset it.
bool IsClosed(const Fd& fd);

class Counting final : public Observer {
 public:
  void OnRefused(RefuseCause why, const std::string& who) override;
  void OnCut(CutCause why, const std::string& who) override;
  void OnDeath() override { ++deaths_; }
  int deaths() const { return deaths_; }
  int refused(RefuseCause why) const;
  int cut(CutCause why) const;

 private:
  mutable std::mutex mu_;
  std::map<RefuseCause, int> refused_;
  std::map<CutCause, int> cut_;
  std::atomic<int> deaths_ = 0;
};

// Closes what it was given as gRPC does: shutdown first.
class KeepingAcceptor {
 public:
  explicit KeepingAcceptor(AcceptorOptions options);
  ~KeepingAcceptor();
  Acceptor& operator*() { return *acceptor_; }
  Acceptor* operator->() { return acceptor_.get(); }

  size_t given() const;
  // The newest one's descriptor and connection.
  int fd() const;
  std::shared_ptr<Connection> connection() const;
  void CloseAll();
  Counting& observer() { return observer_; }

 private:
  Counting observer_;
  mutable std::mutex mu_;
  std::vector<int> fds_;
  std::string newest_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace distlock::acceptor
