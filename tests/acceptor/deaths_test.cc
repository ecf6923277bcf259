// SPDX-License-Identifier: Apache-2.0
#include "acceptor/deaths.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "acceptor/callers.h"

namespace distlock::acceptor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kInode = 4711;

class Pipe {
 public:
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read_ = Fd(ends[0]);
    write_ = Fd(ends[1]);
  }
  int read() const { return read_.get(); }
  void Close() { write_.Reset(); }

 private:
  Fd read_, write_;
};

// Connections whose processes are pipes: their ends are as readable as that of a pidfd.
class Stage {
 public:
  explicit Stage(size_t most = 10) : deaths_(Probe(), most, seconds(4), &observer_) {}

  std::shared_ptr<Connection> Connect() {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return std::make_shared<Connection>(++last_, Kind::kUnix, "unix:uid=1,pid=2", "unix:uid=1", std::nullopt, socket,
                                        CallBudget(), nullptr);
  }
  bool Bind(const Connection& connection, uint64_t key, uint64_t claimed = kInode, const std::string& boot = "boot") {
    return deaths_.Bind(connection, {.boot_id = boot, .pidfd_inode = claimed}, key,
                        [this, key] { told_.push_back(key); });
  }
  // Does as the acceptor when it hears of something.
  void Turn(Clock::time_point now = Clock::now()) {
    pollfd at{.fd = deaths_.fd(), .events = POLLIN, .revents = 0};
    if (poll(&at, 1, 0) > 0) deaths_.OnReadable();
    deaths_.Tick(now);
  }
  void Leave(Connection& connection, Clock::time_point now) {
    connection.Close();
    deaths_.Leave(connection.id, now);
  }

  Deaths& deaths() { return deaths_; }
  Pipe& process() { return process_; }
  const std::vector<uint64_t>& told() const { return told_; }
  int proofs() const { return observer_.deaths; }
  uint64_t inode = kInode;  // what the kernel would say; 0: it does not know

 private:
  struct Counter final : Observer {
    void OnRefused(RefuseCause, const std::string&) override {}
    void OnCut(CutCause, const std::string&) override {}
    void OnDeath() override { ++deaths; }
    int deaths = 0;
  };
  ProcessProbe Probe() {
    return {.pidfd_of = [this](int) { return Fd(fcntl(process_.read(), F_DUPFD_CLOEXEC, 3)); },
            .inode_of = [this](int) { return inode; },
            .boot_id = "boot"};
  }

  Counter observer_;
  Pipe process_;
  uint64_t last_ = 100;
  std::vector<uint64_t> told_;
  Deaths deaths_;
};

TEST(Deaths, EachOfAProcessIsToldOnceWhenItEnds) {
  Stage stage;
  const auto connection = stage.Connect();
  EXPECT_TRUE(stage.Bind(*connection, 1));
  EXPECT_TRUE(stage.Bind(*connection, 2));
  EXPECT_EQ(stage.deaths().watched(), 1u) << "one descriptor for each connection";
  stage.Turn();
  EXPECT_TRUE(stage.told().empty());
  stage.process().Close();
  stage.Turn();
  EXPECT_EQ(stage.told(), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(stage.proofs(), 1);
  EXPECT_EQ(stage.deaths().watched(), 0u);
  stage.Turn();
  EXPECT_EQ(stage.told().size(), 2u);
}

TEST(Deaths, AClaimThatIsNotTrueBindsNothing) {
  Stage stage;
  const auto connection = stage.Connect();
  EXPECT_FALSE(stage.Bind(*connection, 1, kInode + 1));
  EXPECT_FALSE(stage.Bind(*connection, 1, 0));
  EXPECT_FALSE(stage.Bind(*connection, 1, kInode, "another boot"));
  EXPECT_FALSE(stage.Bind(*connection, 1, kInode, ""));
  ASSERT_TRUE(stage.Bind(*connection, 1));
  EXPECT_FALSE(stage.Bind(*connection, 2, kInode + 1)) << "also beside one that is true";
  EXPECT_FALSE(stage.Bind(*connection, 2, kInode, "another boot"));
  stage.process().Close();
  stage.Turn();
  EXPECT_EQ(stage.told(), (std::vector<uint64_t>{1}));
}

TEST(Deaths, AKernelThatCannotTellProcessesApartBindsNothing) {
  Stage stage;
  stage.inode = 0;
  const auto connection = stage.Connect();
  EXPECT_FALSE(stage.Bind(*connection, 1));
  EXPECT_FALSE(stage.Bind(*connection, 1, 0));
  EXPECT_EQ(stage.deaths().watched(), 0u);
}

TEST(Deaths, TheEndOfTheConnectionAloneIsNoProofAndTheProcessIsWatchedForAWhileAfterIt) {
  Stage stage;
  const auto connection = stage.Connect();
  const auto now = Clock::now();
  ASSERT_TRUE(stage.Bind(*connection, 1));
  stage.Leave(*connection, now);
  stage.Turn(now + milliseconds(3999));
  EXPECT_TRUE(stage.told().empty());
  EXPECT_EQ(stage.deaths().watched(), 1u);
  stage.process().Close();
  stage.Turn(now + milliseconds(3999));
  EXPECT_EQ(stage.told(), (std::vector<uint64_t>{1}));
}

TEST(Deaths, AProcessThatLivesOnIsForgottenAfterThat) {
  Stage stage;
  const auto connection = stage.Connect();
  const auto now = Clock::now();
  ASSERT_TRUE(stage.Bind(*connection, 1));
  stage.Leave(*connection, now);
  stage.Turn(now + seconds(4));
  EXPECT_EQ(stage.deaths().watched(), 0u);
  stage.process().Close();
  stage.Turn(now + seconds(4));
  EXPECT_TRUE(stage.told().empty());
}

TEST(Deaths, AStreamThatHasEndedIsToldForAWhileUnlessItGaveAllBack) {
  Stage stage;
  const auto connection = stage.Connect();
  const auto now = Clock::now();
  for (const uint64_t key : {1, 2, 3}) ASSERT_TRUE(stage.Bind(*connection, key));
  stage.deaths().Unbind(connection->id, 1, /*for_good=*/true, now);
  stage.deaths().Unbind(connection->id, 2, /*for_good=*/false, now - seconds(4));
  stage.deaths().Unbind(connection->id, 3, /*for_good=*/false, now);
  stage.Turn(now);
  stage.process().Close();
  stage.Turn(now);
  EXPECT_EQ(stage.told(), (std::vector<uint64_t>{3}));
}

TEST(Deaths, WhoeverHasNobodyToTellIsNoProof) {
  Stage stage;
  const auto connection = stage.Connect();
  ASSERT_TRUE(stage.Bind(*connection, 1));
  stage.deaths().Unbind(connection->id, 1, /*for_good=*/true, Clock::now());
  stage.process().Close();
  stage.Turn();
  EXPECT_EQ(stage.proofs(), 0);
}

TEST(Deaths, NotMoreProcessesThanAllowedAreWatched) {
  Stage stage(2);
  const auto a = stage.Connect();
  const auto b = stage.Connect();
  const auto c = stage.Connect();
  EXPECT_TRUE(stage.Bind(*a, 1));
  EXPECT_TRUE(stage.Bind(*b, 2));
  EXPECT_FALSE(stage.Bind(*c, 3));
  EXPECT_TRUE(stage.Bind(*a, 4)) << "a further stream of one of them needs no descriptor";
  stage.Leave(*b, Clock::now() - seconds(4));
  stage.Turn();
  EXPECT_TRUE(stage.Bind(*c, 3));
}

TEST(Deaths, AConnectionThatIsOverBindsNothing) {
  Stage stage;
  const auto connection = stage.Connect();
  connection->Close();
  EXPECT_FALSE(stage.Bind(*connection, 1));
}

TEST(Deaths, NobodyIsToldAfterStop) {
  Stage stage;
  const auto connection = stage.Connect();
  ASSERT_TRUE(stage.Bind(*connection, 1));
  stage.deaths().Stop();
  EXPECT_FALSE(stage.Bind(*stage.Connect(), 2));
  stage.process().Close();
  stage.Turn();
  EXPECT_TRUE(stage.told().empty());
}

// ---- The kernel's own answers.

uint64_t OwnInode() {
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  return pidfd.get() < 0 ? 0 : KernelProbe().inode_of(pidfd.get());
}

ProcessClaim OwnClaim() { return {.boot_id = KernelProbe().boot_id, .pidfd_inode = OwnInode()}; }

bool KernelProves() { return OwnInode() != 0; }

TEST(Process, ThisOneIsKnownByItsInodeAndNoOther) {
  if (!KernelProves()) GTEST_SKIP() << "needs Linux 6.9";
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd a(ends[0]);
  const Fd b(ends[1]);
  const Fd proven = ProvenProcess(KernelProbe(), a.get(), OwnClaim());
  ASSERT_GE(proven.get(), 0);
  EXPECT_EQ(fcntl(proven.get(), F_GETFD), FD_CLOEXEC);
  ProcessClaim forged = OwnClaim();
  ++forged.pidfd_inode;
  EXPECT_LT(ProvenProcess(KernelProbe(), a.get(), forged).get(), 0);
  forged = OwnClaim();
  forged.boot_id.back() = forged.boot_id.back() == '0' ? '1' : '0';
  EXPECT_LT(ProvenProcess(KernelProbe(), a.get(), forged).get(), 0);
}

// A child that connects, writes its claim's inode and waits for its end.
struct Child {
  pid_t pid = -1;
  uint64_t inode = 0;
};

Child ConnectingChild(const std::string& address) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd from(ends[0]);
  const Fd to(ends[1]);
  Child child;
  child.pid = fork();
  if (child.pid == 0) {
    const Fd socket = Connect(address);
    const uint64_t inode = Say(socket, kHttp2) ? OwnInode() : 0;
    if (write(to.get(), &inode, sizeof(inode)) != sizeof(inode)) _exit(1);
    while (true) pause();
  }
  EXPECT_EQ(read(from.get(), &child.inode, sizeof(child.inode)), static_cast<ssize_t>(sizeof(child.inode)));
  return child;
}

TEST(Process, TheAcceptorTellsOfAKilledOneAndNotOfAStoppedOne) {
  if (!KernelProves()) GTEST_SKIP() << "needs Linux 6.9";
  Folder folder;
  AcceptorOptions options;
  options.listen = {"unix://" + (folder / "d.sock")};
  options.watch_processes = seconds(4);
  KeepingAcceptor acceptor(std::move(options));
  const Child child = ConnectingChild(acceptor->addresses()[0]);
  ASSERT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
  std::atomic<int> told = 0;
  const ProcessClaim claim{.boot_id = KernelProbe().boot_id, .pidfd_inode = child.inode};
  EXPECT_FALSE(acceptor->deaths()->Bind(*acceptor.connection(), OwnClaim(), 1, [&] { told += 100; }))
      << "another process";
  ASSERT_TRUE(acceptor->deaths()->Bind(*acceptor.connection(), claim, 1, [&] { ++told; }));
  kill(child.pid, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
  pollfd at{.fd = acceptor->deaths()->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&at, 1, 50), 0);
  EXPECT_EQ(told, 0);
  kill(child.pid, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return told == 1; })) << "before anybody has collected it";
  waitpid(child.pid, nullptr, 0);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(acceptor.observer().deaths(), 1);
}

TEST(Process, WatchingTakesAThirdDescriptorForEachConnection) {
  Folder folder;
  AcceptorOptions options;
  options.listen = {"unix://" + (folder / "d.sock")};
  options.max_connections = 1'000'000;
  const auto two = Acceptor::Open(options);
  options.listen = {"unix://" + (folder / "e.sock")};
  options.watch_processes = seconds(4);
  const auto three = Acceptor::Open(options);
  options.listen = {"127.0.0.1:0"};
  const auto tcp = Acceptor::Open(options);
  ASSERT_TRUE(two.ok() && three.ok() && tcp.ok());
  EXPECT_EQ((*tcp)->deaths(), nullptr) << "nobody there can be watched";
  EXPECT_EQ((*two)->deaths(), nullptr);
  EXPECT_NEAR(static_cast<double>((*three)->max_connections()), static_cast<double>((*two)->max_connections()) * 2 / 3,
              20);
}

}  // namespace
}  // namespace distlock::acceptor
