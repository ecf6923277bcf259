// SPDX-License-Identifier: Apache-2.0
//
// Reads a file that somebody has named: options, certificates, keys, tokens, policies. Only a regular file is read, and
// no more of it than a bound, so that nothing waits for who writes a FIFO, and no device fills the memory. Links are
// followed, as Kubernetes mounts secrets by them. Any thread. Header only, with std and the system alone: rooms that
// know nothing of the contract include it, too.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace distlock::wire {

inline constexpr size_t kMostGivenBytes = 1 << 20;

struct GivenFile {
  std::string text;
  // "": none. Else what the file is, or why it cannot be read, as it stands behind the file's name: "is a FIFO, ...".
  // It never shows what is in the file.
  std::string problem;
  mode_t mode = 0;  // who may read it
};

namespace given_file {

// "": a regular file.
inline std::string OtherKind(mode_t mode) {
  if (S_ISREG(mode)) return "";
  const char* const kind = S_ISFIFO(mode)                   ? "is a FIFO"
                           : S_ISDIR(mode)                  ? "is a folder"
                           : S_ISSOCK(mode)                 ? "is a socket"
                           : S_ISCHR(mode) || S_ISBLK(mode) ? "is a device"
                                                            : "is something else";
  return std::string(kind) + ", not a regular file";
}

inline std::string TooLarge(size_t most) {
  constexpr size_t kKiB = 1 << 10;
  constexpr size_t kMiB = 1 << 20;
  const std::string bound = most % kMiB == 0   ? std::to_string(most / kMiB) + " MiB"
                            : most % kKiB == 0 ? std::to_string(most / kKiB) + " KiB"
                                               : std::to_string(most) + " bytes";
  return "is larger than " + bound;
}

inline std::string Unreadable(int error) {
  return "cannot be read: " + std::error_code(error, std::generic_category()).message();
}

// As ReadGivenFile, of an open descriptor.
inline GivenFile ReadOpen(int fd, size_t most) {
  GivenFile file;
  struct stat facts{};
  if (fstat(fd, &facts) != 0) return {"", Unreadable(errno)};
  file.mode = facts.st_mode;
  file.problem = OtherKind(facts.st_mode);
  if (file.problem.empty() && facts.st_size > static_cast<off_t>(most)) file.problem = TooLarge(most);
  char block[16 * 1024];
  while (file.problem.empty()) {
    const ssize_t got = read(fd, block, sizeof(block));
    if (got == 0) return file;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      file.problem = Unreadable(errno);
    } else if (file.text.size() + static_cast<size_t>(got) > most) {
      file.problem = TooLarge(most);
    } else {
      file.text.append(block, static_cast<size_t>(got));
    }
  }
  file.text.clear();
  return file;
}

}  // namespace given_file

inline GivenFile ReadGivenFile(const std::string& path, size_t most = kMostGivenBytes) {
  // Looked at first, because it may matter to a device that it is opened.
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return {"", given_file::Unreadable(errno)};
  if (std::string other = given_file::OtherKind(facts.st_mode); !other.empty()) return {"", std::move(other)};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return {"", given_file::Unreadable(errno)};
  GivenFile file = given_file::ReadOpen(fd, most);
  close(fd);
  return file;
}

}  // namespace distlock::wire
