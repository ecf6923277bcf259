// SPDX-License-Identifier: Apache-2.0
#include "redis/real_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

#include "store/text.h"

namespace distlock::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartPatience{20};
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr size_t kClockBytes = 2 * sizeof(int64_t);
constexpr int64_t kFirstNs = 1'700'000'000'000'000'000;

// Runs in the child.
[[noreturn]] void BecomeServer(const std::string& binary, const std::string& folder, const std::string& socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int log = open(store::Cat(folder, "/log").c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  setenv("LD_PRELOAD", DISTLOCK_CLOCK_SHIM, 1);
  setenv("DISTLOCK_CLOCK_PAGE", store::Cat(folder, "/clock").c_str(), 1);
  execl(binary.c_str(), binary.c_str(), "--port", "0", "--unixsocket", socket.c_str(), "--dir", folder.c_str(),
        "--save", "", "--appendonly", "no", "--enable-debug-command", "yes", "--jemalloc-bg-thread", "no", nullptr);
  _exit(127);
}

}  // namespace

RealServer::RealServer(const std::string& binary) {
  std::string folder = std::filesystem::temp_directory_path() / "distlock-model-check-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = folder;
  socket_ = folder_ + "/s";
  MapClock();
  Start(binary);
}

RealServer::~RealServer() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  if (clock_ != nullptr) munmap(clock_, kClockBytes);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void RealServer::SetClock(int64_t now_us) {
  std::atomic_ref<int64_t>(clock_[0]).store(now_us * 1000, std::memory_order_release);
}

void RealServer::MapClock() {
  const int file = open(store::Cat(folder_, "/clock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, kClockBytes) != 0) throw std::runtime_error("no clock page");
  void* page = mmap(nullptr, kClockBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) throw std::runtime_error("the clock page cannot be mapped");
  clock_ = static_cast<int64_t*>(page);
  clock_[0] = kFirstNs;
}

void RealServer::Start(const std::string& binary) {
  process_ = fork();
  if (process_ == 0) BecomeServer(binary, folder_, socket_);
  const auto deadline = Clock::now() + kStartPatience;
  while (true) {
    Connection connection(socket_);
    if (connection.good()) {
      connection.Do({"DEBUG", "SET-ACTIVE-EXPIRE", "0"});
      return;
    }
    if (waitpid(process_, nullptr, WNOHANG) != 0 || Clock::now() >= deadline) {
      throw std::runtime_error(store::Cat(binary, " does not answer; its output is in ", folder_, "/log"));
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Connection::Connection(const std::string& socket) : context_(redisConnectUnix(socket.c_str())) {
  if (good()) redisSetTimeout(context_.get(), timeval{5, 0});
}

void Connection::Send(const Argv& argv) {
  std::vector<const char*> words;
  std::vector<size_t> sizes;
  for (const std::string_view word : argv) {
    words.push_back(word.data());
    sizes.push_back(word.size());
  }
  redisAppendCommandArgv(context_.get(), static_cast<int>(argv.size()), words.data(), sizes.data());
}

store::ReplyPtr Connection::Receive() {
  void* reply = nullptr;
  if (redisGetReply(context_.get(), &reply) != REDIS_OK) return nullptr;
  return store::ReplyPtr(static_cast<redisReply*>(reply));
}

store::ReplyPtr Connection::Do(const Argv& argv) {
  Send(argv);
  return Receive();
}

}  // namespace distlock::sim
