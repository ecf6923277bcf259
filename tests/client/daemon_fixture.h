// SPDX-License-Identifier: Apache-2.0
//
// Two clients of a real distlockd with a store of its own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {

// Ends a test that hangs; no wait of a good run takes so long.
inline constexpr auto kPatience = std::chrono::seconds(60);

class Daemon {
 public:
  Daemon() : address_("unix://" + folder_.path() + "/d.sock"), pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    // So long that nothing is lost while no process is run for some seconds.
    ::execl(DISTLOCKD, DISTLOCKD, "--listen", address_.c_str(), "--http", "", "--log-level", "error", "--validity",
            "20s", "--default-ttl", "60s", nullptr);
    ::_exit(127);
  }
  ~Daemon() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGTERM);
    WaitForItsEnd();
  }

  // Until it has exited by itself.
  void WaitForItsEnd() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }

  const std::string& address() const { return address_; }

 private:
  const testing::Folder folder_;
  const std::string address_;
  pid_t pid_;  // 0: it has ended
};

class DaemonTest : public ::testing::Test {
 protected:
  // The broker listens before it has reached its store, and refuses until then.
  DaemonTest() {
    Mutex mutex = one_.MakeMutex("distlock/ready");
    while (!mutex.TryLock().ok()) std::this_thread::yield();
  }

  ClientOptions Options(std::string label) const {
    return {.address = daemon_.address(), .client_label = std::move(label), .unreachable_timeout = kPatience};
  }

  Daemon daemon_;
  Client one_{Options("one")};
  Client two_{Options("two")};
};

}  // namespace distlock
