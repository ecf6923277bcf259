// SPDX-License-Identifier: Apache-2.0
#include "bench/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace distlock::bench {
namespace {

std::string Whole(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

double Seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

double UsedSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

double TickSeconds(double ticks) { return ticks / static_cast<double>(sysconf(_SC_CLK_TCK)); }

}  // namespace

Child::Child(const std::vector<std::string>& args, std::string log) : log_(std::move(log)) {
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int out = open(log_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (out < 0) throw std::runtime_error("cannot write " + log_);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, 1);
    dup2(out, 2);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(out);
  if (pid_ < 0) throw std::runtime_error("cannot start " + args[0]);
}

Child::~Child() { Stop(std::chrono::seconds(5)); }

bool Child::Stop(std::chrono::seconds patience) {
  AskToStop();
  if (Wait(patience)) return true;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  ended_ = true;
  return false;
}

bool Child::Wait(std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < end) {
    if (!Alive()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void Child::AskToStop() {
  // Only once: a second SIGTERM would end a broker at once, without releasing its locks.
  if (Alive() && !std::exchange(asked_, true)) kill(pid_, SIGTERM);
}

bool Child::Alive() {
  if (!ended_ && waitpid(pid_, nullptr, WNOHANG) != 0) ended_ = true;
  return !ended_;
}

std::string Child::Log() const { return Whole(log_); }

std::string Child::LogTail() const {
  const std::string text = Log();
  return text.size() <= 2000 ? text : text.substr(text.size() - 2000);
}

double CpuSeconds(pid_t pid) {
  const std::string text = Whole("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return TickSeconds(user + system);
}

double OwnCpuSeconds() { return UsedSeconds(RUSAGE_SELF); }

double EndedChildrenCpuSeconds() { return UsedSeconds(RUSAGE_CHILDREN); }

double MachineCpuSeconds() {
  std::istringstream fields(Whole("/proc/stat"));
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0;
  fields >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq;
  return TickSeconds(user + nice + system + irq + softirq);
}

double ResidentBytes(pid_t pid) {
  std::istringstream fields(Whole("/proc/" + std::to_string(pid) + "/statm"));
  double size = 0;
  double resident = 0;
  fields >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) close(fd);
  if (!bound) throw std::runtime_error("no free TCP port on 127.0.0.1");
  return ntohs(address.sin_port);
}

bool Listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long for a unix socket: " + path);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool accepted = fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) close(fd);
  return accepted;
}

bool HasProgram(const std::string& name) {
  const char* path = getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access(folder.append("/").append(name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace distlock::bench
