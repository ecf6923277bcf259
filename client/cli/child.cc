// SPDX-License-Identifier: Apache-2.0
#include "child.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "exit_code.h"

namespace distlock::cli {
namespace {

std::vector<std::string> EnvironmentWith(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const auto& [name, value] : extra) {
      replaced = replaced || (std::strncmp(*entry, name.c_str(), name.size()) == 0 && (*entry)[name.size()] == '=');
    }
    if (!replaced) out.emplace_back(*entry);
  }
  for (const auto& [name, value] : extra) out.push_back(absl::StrCat(name, "=", value));
  return out;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

ssize_t ReadRetrying(int fd, void* buffer, size_t size) {
  ssize_t n;
  do {
    n = ::read(fd, buffer, size);
  } while (n < 0 && errno == EINTR);
  return n;
}

void ReportAndExit(int error_fd) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(error_fd, &error, sizeof(error));
  ::_exit(kExitNotFound);
}

// In the child. The parent may die at any moment before exec. The death signal covers the time after prctl; getppid and
// the closed go pipe cover the time before it.
[[noreturn]] void BecomeCommand(pid_t parent, int go_fd, int error_fd, char* const* argv, char* const* env,
                                const CommandLine& command) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  char go = 0;
  if (::getppid() != parent || ReadRetrying(go_fd, &go, 1) != 1) ::_exit(kExitNotFound);
  if (command.stdin_from_null) {
    const int null_fd = ::open("/dev/null", O_RDONLY);
    if (null_fd < 0 || ::dup2(null_fd, STDIN_FILENO) < 0) ReportAndExit(error_fd);
    if (null_fd != STDIN_FILENO) ::close(null_fd);
  }
  ::sigprocmask(SIG_SETMASK, &command.signal_mask, nullptr);
  ::execvpe(argv[0], argv, env);
  ReportAndExit(error_fd);
  ::_exit(kExitNotFound);
}

}  // namespace

Child::~Child() {
  if (go_fd_ >= 0) ::close(go_fd_);
  if (error_fd_ >= 0) ::close(error_fd_);
}

bool Child::Fork(const CommandLine& command) {
  const std::vector<std::string> env_strings = EnvironmentWith(command.extra_env);
  const std::vector<char*> argv = Pointers(command.argv);
  const std::vector<char*> env = Pointers(env_strings);
  int go[2];
  int error[2];
  if (::pipe2(go, O_CLOEXEC) != 0) return false;
  if (::pipe2(error, O_CLOEXEC) != 0) {
    ::close(go[0]);
    ::close(go[1]);
    return false;
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    // Otherwise the child's own copy would keep the pipe open after the parent's death.
    ::close(go[1]);
    BecomeCommand(parent, go[0], error[1], argv.data(), env.data(), command);
  }
  ::close(go[0]);
  ::close(error[1]);
  go_fd_ = go[1];
  error_fd_ = error[0];
  if (pid_ < 0) return false;
  // Parent and child both call it, so that neither goes on before the group exists.
  ::setpgid(pid_, pid_);
  return true;
}

int Child::Go() {
  [[maybe_unused]] const ssize_t written = ::write(go_fd_, "g", 1);
  ::close(go_fd_);
  go_fd_ = -1;
  int error = 0;
  if (ReadRetrying(error_fd_, &error, sizeof(error)) != static_cast<ssize_t>(sizeof(error))) return 0;
  ::waitpid(pid_, nullptr, 0);
  ended_ = true;
  return error;
}

std::optional<Reaped> ReapAny() {
  Reaped reaped{};
  reaped.pid = ::waitpid(-1, &reaped.status, WNOHANG | WUNTRACED);
  return reaped.pid > 0 ? std::optional(reaped) : std::nullopt;
}

bool Child::Note(const Reaped& reaped) {
  if (!running() || reaped.pid != pid_) return false;
  ended_ = !WIFSTOPPED(reaped.status);
  return true;
}

bool Child::SignalGroup(int signo) const { return pid_ > 0 && (::kill(-pid_, signo) == 0 || errno == EPERM); }

int ExitCodeOfStatus(int status) {
  return WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace distlock::cli
