// SPDX-License-Identifier: Apache-2.0
#include "store/embedded/embedded_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness.h"
#include "store/text.h"

namespace distlock::store {
namespace {

namespace fs = std::filesystem;

bool Await(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// Also when nobody has reaped it yet.
bool Dead(pid_t pid) {
  std::ifstream stat(Cat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(stat, line)) return true;
  return Contains(line, ") Z ") || Contains(line, ") X ");
}

std::string WriteScript(const TempDir& dir, std::string_view body) {
  const std::string path = dir / "server";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  chmod(path.c_str(), 0700);
  return path;
}

TEST(EmbeddedServer, ServesOnAPrivateSocketAndLeavesNothing) {
  auto server = StartServer();
  const std::string dir = server->dir();
  struct stat info{};
  ASSERT_EQ(stat(dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  {
    Admin admin(server->Url());
    EXPECT_EQ(admin.Str({"PING"}), "PONG");
    EXPECT_EQ(Text(*admin.Do({"CONFIG", "GET", "maxmemory-policy"})->element[1]), "noeviction");
    EXPECT_EQ(Text(*admin.Do({"CONFIG", "GET", "port"})->element[1]), "0");
    EXPECT_EQ(Text(*admin.Do({"CONFIG", "GET", "save"})->element[1]), "");
  }
  const pid_t pid = server->pid();
  EXPECT_TRUE(server->Running());
  server->Stop();
  EXPECT_FALSE(server->Running());
  EXPECT_TRUE(Dead(pid));
  EXPECT_FALSE(fs::exists(dir));
}

TEST(EmbeddedServer, AGivenFolderIsKeptAndOnlyOnesOwn) {
  const TempDir dir;
  const std::string home = dir / "home";
  {
    const auto server = StartServer(home);
    EXPECT_TRUE(fs::exists(home + "/store.sock"));
    const auto second = EmbeddedServer::Start({.server = {}, .dir = home});
    EXPECT_TRUE(Contains(View(second.status().message()), "in use")) << second.status();
    EXPECT_TRUE(server->Running());
    EXPECT_TRUE(fs::exists(home + "/store.sock"));
  }
  EXPECT_TRUE(fs::exists(home + "/store.log"));
  EXPECT_FALSE(fs::exists(home + "/store.sock"));
  chmod(home.c_str(), 0755);
  const auto open = EmbeddedServer::Start({.server = {}, .dir = home});
  EXPECT_TRUE(Contains(View(open.status().message()), "0700")) << open.status();
}

// One that outlives the daemon of a test, but not the test.
struct Outliving {
  Outliving() = default;
  ~Outliving() {
    kill(pid, SIGCONT);
    kill(pid, SIGKILL);
  }
  Outliving(const Outliving&) = delete;
  Outliving& operator=(const Outliving&) = delete;

  absl::StatusOr<std::unique_ptr<EmbeddedServer>> Start(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    auto server =
        EmbeddedServer::Start({.server = {}, .dir = dir / "home", .outlives = true, .start_timeout = timeout});
    if (server.ok()) pid = (*server)->pid();
    return server;
  }

  const TempDir dir;
  pid_t pid = -1;
};

TEST(EmbeddedServer, TheNextDaemonGoesOnWithOneThatOutlivesItsOwn) {
  Outliving store;
  pid_t first = -1;
  {
    const auto server = store.Start();
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_FALSE((*server)->found_again());
    first = store.pid;
    Admin((*server)->Url()).Str({"SET", "k", "v"});
    EXPECT_FALSE(store.Start().ok()) << "the folder is in use";
  }
  EXPECT_FALSE(Dead(first));
  std::string noted;
  std::getline(std::ifstream(store.dir / "home/store.pid"), noted);
  EXPECT_EQ(noted, std::to_string(first));
  const auto server = store.Start();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->found_again() && (*server)->Running());
  EXPECT_EQ((*server)->pid(), first);
  EXPECT_EQ(Admin((*server)->Url()).Str({"GET", "k"}), "v");
  kill(first, SIGKILL);
  EXPECT_TRUE(Await([&] { return !(*server)->Running(); }));
}

TEST(EmbeddedServer, OneThatHasEndedIsReplaced) {
  Outliving store;
  store.Start().value().reset();
  const pid_t first = store.pid;
  kill(first, SIGKILL);
  ASSERT_TRUE(Await([&] { return waitpid(first, nullptr, WNOHANG) != 0; }));  // it has left its socket
  const auto server = store.Start();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_FALSE((*server)->found_again());
  EXPECT_NE((*server)->pid(), first);
}

TEST(EmbeddedServer, OneThatIsStoppedIsNamedAndNotReplaced) {
  Outliving store;
  store.Start().value().reset();
  const pid_t pid = store.pid;
  kill(pid, SIGSTOP);
  const auto server = store.Start(std::chrono::milliseconds(1));
  EXPECT_TRUE(Contains(View(server.status().message()), Cat("process ", pid, ", does not answer"))) << server.status();
  kill(pid, SIGCONT);
  EXPECT_TRUE(store.Start().value()->found_again());
}

TEST(EmbeddedServer, OneThatDoesNotBecomeReadyIsStoppedAlthoughItWouldOutlive) {
  const TempDir dir;
  const std::string script = WriteScript(dir, Cat("echo $$ > ", dir / "pid", "; exec sleep 1000"));
  const auto server = EmbeddedServer::Start(
      {.server = script, .dir = dir / "home", .outlives = true, .start_timeout = std::chrono::milliseconds(300)});
  EXPECT_FALSE(server.ok());
  pid_t pid = 0;
  std::ifstream(dir / "pid") >> pid;
  EXPECT_TRUE(pid == 0 || Dead(pid));
}

TEST(EmbeddedServer, DiesWithADaemonThatIsKilled) {
  int report[2];
  ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
  const TempDir tmp;  // a killed daemon cannot clean up after itself
  const pid_t daemon = fork();
  if (daemon == 0) {
    setenv("TMPDIR", tmp.path().c_str(), 1);
    auto server = EmbeddedServer::Start({});
    const pid_t pid = server.ok() ? (*server)->pid() : -1;
    (void)!write(report[1], &pid, sizeof(pid));
    for (;;) pause();
  }
  pid_t pid = -1;
  ASSERT_EQ(read(report[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(Dead(pid));
  kill(daemon, SIGKILL);
  waitpid(daemon, nullptr, 0);
  EXPECT_TRUE(Await([&] { return Dead(pid); }));
  close(report[0]);
  close(report[1]);
}

TEST(EmbeddedServer, TheNextOneRemovesWhatKilledOnesLeft) {
  const TempDir tmp;
  const std::string dead = tmp / "distlock-dead00", fresh = tmp / "distlock-fresh0", others = tmp / "distlock-others-1";
  for (const std::string& folder : {dead, fresh, others}) ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  for (const std::string& folder : {dead, others}) std::ofstream(folder + "/store.log") << "ready\n";
  std::ofstream(dead + "/store.sock") << "";
  const char* before = getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", tmp.path().c_str(), 1);
  const auto first = StartServer();
  const auto second = StartServer();
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(fresh)) << "a daemon may be about to lock it";
  EXPECT_TRUE(fs::exists(others)) << "not a name of ours";
  EXPECT_TRUE(fs::exists(first->dir() + "/store.log")) << "in use";
  EXPECT_NE(first->dir(), second->dir());
}

TEST(EmbeddedServer, InheritsNoDescriptor) {
  // Somebody forgot close-on-exec.
  const int leaky = open("/dev/null", O_RDONLY);
  const auto server = StartServer();
  for (const auto& fd : fs::directory_iterator(Cat("/proc/", server->pid(), "/fd"))) {
    if (std::stoi(fd.path().filename()) <= STDERR_FILENO) continue;
    std::error_code ignored;
    EXPECT_NE(fs::read_symlink(fd.path(), ignored), "/dev/null") << fd.path();
  }
  close(leaky);
}

TEST(EmbeddedServer, AMissingProgramIsNamed) {
  const auto path = EmbeddedServer::Start({.server = "/no/such/server", .dir = {}});
  EXPECT_TRUE(Contains(View(path.status().message()), "/no/such/server")) << path.status();
  const auto name = EmbeddedServer::Start({.server = "no-such-server", .dir = {}});
  EXPECT_TRUE(Contains(View(name.status().message()), "no-such-server")) << name.status();
}

TEST(EmbeddedServer, AProgramThatEndsShowsItsLog) {
  const TempDir dir;
  const auto server = EmbeddedServer::Start({.server = WriteScript(dir, "echo the reason why >&2; exit 3"), .dir = {}});
  EXPECT_TRUE(Contains(View(server.status().message()), "the reason why")) << server.status();
  const auto odd = EmbeddedServer::Start(
      {.server = dir / "server", .dir = dir / "d", .start_timeout = std::chrono::milliseconds(1)});
  EXPECT_FALSE(odd.ok());
}

TEST(EmbeddedServer, AProgramThatNeverAnswersIsStopped) {
  const TempDir dir;
  const std::string script = WriteScript(dir, Cat("echo $$ > ", dir / "pid", "; exec sleep 1000"));
  const auto server =
      EmbeddedServer::Start({.server = script, .dir = {}, .start_timeout = std::chrono::milliseconds(300)});
  EXPECT_TRUE(Contains(View(server.status().message()), "300 ms")) << server.status();
  pid_t pid = 0;
  std::ifstream(dir / "pid") >> pid;
  EXPECT_TRUE(pid == 0 || Dead(pid));
}

TEST(EmbeddedServer, ItsOwnEndIsNoticed) {
  const auto server = StartServer();
  kill(server->pid(), SIGKILL);
  EXPECT_TRUE(Await([&] { return !server->Running(); }));
}

}  // namespace
}  // namespace distlock::store
