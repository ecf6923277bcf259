// SPDX-License-Identifier: Apache-2.0
//
// A child process that does not outlive this one, and the kernel's figures for a process: CPU time and memory. Start
// children from the main thread, because the kernel ends them with the thread that started them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace distlock::bench {

class Child {
 public:
  // Runs args[0] with output into `log`. Throws std::runtime_error when it cannot be started.
  Child(const std::vector<std::string>& args, std::string log);
  ~Child();  // Stop() with 5 s
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  bool Alive();
  bool Wait(std::chrono::seconds patience);  // for its end; false: it still runs
  void AskToStop();                          // SIGTERM, once
  // AskToStop(), and SIGKILL when it has not ended after `patience`. Returns whether it ended by itself.
  bool Stop(std::chrono::seconds patience);
  std::string LogTail() const;  // the last lines, for a message about its failure
  std::string Log() const;      // all of its output so far

 private:
  pid_t pid_ = -1;
  bool asked_ = false;
  bool ended_ = false;
  std::string log_;
};

// User and system time so far, of all threads. /proc counts in ticks of 10 ms; the time of this process is exact.
double CpuSeconds(pid_t pid);
double OwnCpuSeconds();
double EndedChildrenCpuSeconds();  // of all children that have ended

// The busy time of the whole machine so far, summed over its cores. The part that the bench did not use is noise.
double MachineCpuSeconds();

// Resident memory in bytes.
double ResidentBytes(pid_t pid);

// A TCP port that nobody listens on at the moment.
int FreePort();

// Whether somebody listens at a unix socket.
bool Listens(const std::string& path);

// Whether PATH has an executable of this name.
bool HasProgram(const std::string& name);

}  // namespace distlock::bench
