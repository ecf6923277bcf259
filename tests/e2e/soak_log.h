// SPDX-License-Identifier: Apache-2.0
//
// Writes a process's part of a history, as tests/sim/history/json_lines.h reads it: one record a line, each written at
// once and whole, so that a kill loses no earlier record. Thread-safe.
#pragma once

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace distlock::soak {

// CLOCK_BOOTTIME in ns: one clock for all processes of the machine, and the clock of the library's deadlines.
inline int64_t BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class SoakLog {
 public:
  // Ends the process when the file cannot be written, because a run without its history proves nothing.
  SoakLog(const std::string& path, std::string actor) : actor_(std::move(actor)) {
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) Fail(path.c_str());
  }
  ~SoakLog() { close(file_); }
  SoakLog(const SoakLog&) = delete;
  SoakLog& operator=(const SoakLog&) = delete;

  void Write(int64_t at_ns, const char* kind, nlohmann::json more) {
    more["at"] = at_ns;
    more["kind"] = kind;
    more.emplace("actor", actor_);
    const std::string line = more.dump() + "\n";
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) Fail("writing the history");
  }
  void Write(const char* kind, nlohmann::json more) { Write(BootNow(), kind, std::move(more)); }

 private:
  [[noreturn]] static void Fail(const char* what) {
    std::perror(what);
    std::_Exit(3);
  }

  std::string actor_;
  int file_ = -1;
};

}  // namespace distlock::soak
