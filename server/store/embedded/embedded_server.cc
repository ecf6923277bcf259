// SPDX-License-Identifier: Apache-2.0
#include "store/embedded/embedded_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "store/text.h"

namespace distlock::store {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kTailLines = 5;
constexpr std::string_view kTemporary = "distlock-";
constexpr std::string_view kUnique = "XXXXXX";
constexpr const char* kSocket = "store.sock";
constexpr const char* kLog = "store.log";
constexpr const char* kPid = "store.pid";
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr std::chrono::seconds kStopPatience{3};

std::string InPath(const std::string& name) {
  const char* path = getenv("PATH");
  for (const std::string_view folder : Split(path == nullptr ? "/usr/bin:/bin" : path, ":")) {
    std::string candidate = Cat(folder.empty() ? "." : folder, "/", name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

absl::StatusOr<std::string> FindServer(const std::string& wanted) {
  if (wanted.find('/') != std::string::npos) {
    if (access(wanted.c_str(), X_OK) == 0) return wanted;
    return absl::NotFoundError(Cat("cannot run the embedded store '", wanted, "': ", strerror(errno)));
  }
  const std::vector<std::string> names =
      wanted.empty() ? std::vector<std::string>{"redis-server", "valkey-server"} : std::vector<std::string>{wanted};
  for (const auto& name : names) {
    if (std::string found = InPath(name); !found.empty()) return found;
  }
  return absl::NotFoundError(
      Cat("no ", Join(names, " and no "), " in PATH; install one, or give the URL of a store with --redis"));
}

// In the child, between fork and exec: async-signal-safe calls only.
[[noreturn]] void BecomeServer(char* const* argv, pid_t parent, bool outlives, int log, int failure) {
  if (!outlives) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the daemon died before the line above
  }
  setsid();  // so that Ctrl-C at the terminal reaches the daemon only
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execv(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t ignored = write(failure, &error, sizeof(error));
  _exit(127);
}

// Removes the folders of daemons that were killed: they have a server's log and no lock. A folder without a log may
// belong to a daemon that is about to lock it.
void RemoveLeftovers(const std::string& tmp) {
  std::error_code error;
  for (fs::directory_iterator at(tmp, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    const std::string name = path.filename();
    if (!name.starts_with(kTemporary) || name.size() != kTemporary.size() + kUnique.size()) continue;
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info{};
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid() && faccessat(fd, kLog, F_OK, 0) == 0 &&
        flock(fd, LOCK_EX | LOCK_NB) == 0) {
      unlinkat(fd, kSocket, 0);
      unlinkat(fd, kLog, 0);
      rmdir(path.c_str());
    }
    if (fd >= 0) close(fd);
  }
}

struct Look {
  bool connected = false;
  bool answers = false;
  pid_t pid = 0;  // of the process that listens; 0: it is in another container
};

// One PING on a connection of its own.
Look LookAt(const std::string& path) {
  Look look;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return look;
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  look.connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (look.connected && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) look.pid = peer.pid;
  char answer[5] = {};
  look.answers = look.connected && send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 &&
                 recv(fd, answer, sizeof(answer), MSG_WAITALL) == sizeof(answer) &&
                 std::string_view(answer, sizeof(answer)) == "+PONG";
  close(fd);
  return look;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedServer>> EmbeddedServer::Start(const EmbeddedOptions& options) {
  std::unique_ptr<EmbeddedServer> server(new EmbeddedServer);
  if (auto status = server->MakeDir(options); !status.ok()) return status;
  if (options.outlives) {
    if (auto status = server->FindAgain(options.start_timeout); !status.ok()) return status;
  }
  if (!server->found_again_) {
    if (auto status = server->Launch(options); !status.ok()) return status;
  }
  server->outlives_ = options.outlives;
  return server;
}

// Looks for the server that a daemon before this one has left. One that lives but does not answer has locks: no other
// one may take its place.
absl::Status EmbeddedServer::FindAgain(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  Look look;
  while (!(look = LookAt(SocketPath())).answers) {
    if (!look.connected) return absl::OkStatus();
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(Cat("the embedded store in '", dir_, "', process ", look.pid,
                                        ", does not answer; it may be stopped. Its locks are lost if you end it"));
    }
    poll(nullptr, 0, static_cast<int>(kLookAgain.count()));
  }
  found_again_ = true;
  pid_ = look.pid;
  ended_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  return absl::OkStatus();
}

absl::Status EmbeddedServer::Launch(const EmbeddedOptions& options) {
  auto program = FindServer(options.server);
  if (!program.ok()) return program.status();
  unlink(SocketPath().c_str());
  launched_ = true;
  if (auto status = Spawn(*program, options.outlives); !status.ok()) return status;
  auto status = AwaitReady(options.start_timeout);
  if (status.ok()) return status;
  return absl::UnavailableError(
      Cat("the embedded store ", *program, " ", status.message(), "; its log ends: ", LogTail()));
}

EmbeddedServer::~EmbeddedServer() { Stop(); }

std::string EmbeddedServer::SocketPath() const { return Cat(dir_, "/", kSocket); }
std::string EmbeddedServer::LogPath() const { return Cat(dir_, "/", kLog); }

absl::Status EmbeddedServer::MakeDir(const EmbeddedOptions& options) {
  if (options.dir.empty()) {
    const char* tmp = getenv("TMPDIR");
    const std::string parent = tmp == nullptr || *tmp == '\0' ? "/tmp" : tmp;
    RemoveLeftovers(parent);
    std::string pattern = Cat(parent, "/", kTemporary, kUnique);
    if (mkdtemp(pattern.data()) == nullptr) {
      return absl::FailedPreconditionError(
          Cat("cannot make a folder ", pattern, " for the embedded store: ", strerror(errno)));
    }
    dir_ = pattern;
    remove_dir_ = true;
  } else {
    dir_ = options.dir;
    if (mkdir(dir_.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::FailedPreconditionError(
          Cat("cannot make the embedded store's folder '", dir_, "': ", strerror(errno)));
    }
  }
  struct stat info{};
  if (stat(dir_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(
        Cat("the embedded store's folder '", dir_,
            "' must be a folder of this user with mode 0700; run chmod 700, or give another"));
  }
  if (SocketPath().size() >= sizeof(sockaddr_un{}.sun_path)) {
    return absl::FailedPreconditionError(
        Cat("the path of the embedded store's socket is too long: ", SocketPath(), "; give a shorter folder"));
  }
  dir_lock_ = open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir_lock_ < 0 || flock(dir_lock_, LOCK_EX | LOCK_NB) != 0) {
    if (dir_lock_ >= 0) close(std::exchange(dir_lock_, -1));
    return absl::FailedPreconditionError(
        Cat("the embedded store's folder '", dir_, "' is in use by another daemon; give another"));
  }
  return absl::OkStatus();
}

absl::Status EmbeddedServer::Spawn(const std::string& program, bool outlives) {
  std::vector<std::string> args = {
      program, "--port",       "0",  "--unixsocket",       SocketPath(), "--unixsocketperm", "700", "--save",
      "",      "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize",      "no",  "--dir",
      dir_,    "--logfile",    "",   "--databases",        "1"};
  if (outlives) args.insert(args.end(), {"--pidfile", Cat(dir_, "/", kPid)});
  std::vector<char*> argv;
  for (auto& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const int log = open(LogPath().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  int failure[2] = {-1, -1};
  if (log < 0 || pipe2(failure, O_CLOEXEC) != 0) {
    const int error = errno;
    if (log >= 0) close(log);
    return absl::FailedPreconditionError(Cat("cannot write to '", dir_, "': ", strerror(error)));
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) BecomeServer(argv.data(), parent, outlives, log, failure[1]);
  const int fork_error = errno;
  close(log);
  close(failure[1]);
  int error = child < 0 ? fork_error : 0;
  // Ends when exec has closed the other end, or with the error of exec.
  while (child > 0 && read(failure[0], &error, sizeof(error)) < 0 && errno == EINTR) {
  }
  close(failure[0]);
  pid_ = child;
  if (error == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat("cannot start the embedded store ", program, ": ", strerror(error)));
}

absl::Status EmbeddedServer::AwaitReady(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!LookAt(SocketPath()).answers) {
    if (!Running()) return absl::UnavailableError("ended at once");
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(Cat("did not answer within ", timeout.count(), " ms"));
    }
    poll(nullptr, 0, static_cast<int>(kLookAgain.count()));
  }
  return absl::OkStatus();
}

StoreUrl EmbeddedServer::Url() const {
  StoreUrl url;
  url.transport = StoreUrl::Transport::kUnix;
  url.address.path = SocketPath();
  return url;
}

bool EmbeddedServer::Running() {
  if (found_again_) {
    pollfd fd{ended_, POLLIN, 0};
    return poll(&fd, 1, 0) <= 0;
  }
  if (pid_ <= 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

std::string EmbeddedServer::LogTail() const {
  std::ifstream file(LogPath());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    if (lines.size() == kTailLines) lines.erase(lines.begin());
    lines.push_back(std::move(line));
  }
  return lines.empty() ? "(empty)" : Join(lines, " | ");
}

void EmbeddedServer::Stop() {
  if (ended_ >= 0) close(std::exchange(ended_, -1));
  if (outlives_) {
    if (dir_lock_ >= 0) close(std::exchange(dir_lock_, -1));
    return;
  }
  if (pid_ > 0 && !found_again_) {
    kill(pid_, SIGTERM);
    const auto deadline = Clock::now() + kStopPatience;
    while (Running()) {
      if (Clock::now() >= deadline) {
        kill(pid_, SIGKILL);
        waitpid(std::exchange(pid_, -1), nullptr, 0);
        break;
      }
      poll(nullptr, 0, static_cast<int>(kLookAgain.count()));
    }
  }
  std::error_code ignored;
  if (remove_dir_ && !dir_.empty()) {
    fs::remove_all(dir_, ignored);
  } else if (launched_) {
    fs::remove(SocketPath(), ignored);
  }
  if (dir_lock_ >= 0) close(std::exchange(dir_lock_, -1));
  dir_.clear();
}

}  // namespace distlock::store
