// SPDX-License-Identifier: Apache-2.0
//
// A private redis-server or valkey-server on a unix socket, for one machine and one daemon. It writes nothing to disk,
// and dies with the daemon, even when the daemon is killed.
//
// Thread: Start, Stop and destruction on the one thread that lives as long as the daemon (main's): the kernel ties the
// child's death to the thread that made it, not to the process. Destruction stops the server. The folder is 0700. A
// temporary folder is removed at the end, or, when the daemon was killed, by the next daemon; a given folder keeps the
// server's log.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/store_url.h"

namespace distlock::store {

struct EmbeddedOptions {
  std::string server;  // path or name; "" = redis-server, else valkey-server, from PATH
  std::string dir;     // made when missing; "" = a new folder in TMPDIR or /tmp
  std::chrono::milliseconds start_timeout{10'000};
};

class EmbeddedServer {
 public:
  // Returns once the server answers. The error names the program and shows the last lines of its log.
  static absl::StatusOr<std::unique_ptr<EmbeddedServer>> Start(const EmbeddedOptions& options);
  ~EmbeddedServer();
  EmbeddedServer(const EmbeddedServer&) = delete;
  EmbeddedServer& operator=(const EmbeddedServer&) = delete;

  StoreUrl Url() const;
  pid_t pid() const { return pid_; }
  const std::string& dir() const { return dir_; }

  // False when the server has ended by itself; then its locks are gone with it.
  bool Running();
  std::string LogTail() const;

  void Stop();

 private:
  EmbeddedServer() = default;
  absl::Status MakeDir(const EmbeddedOptions& options);
  absl::Status Spawn(const std::string& program);
  absl::Status AwaitReady(std::chrono::milliseconds timeout);
  std::string SocketPath() const;
  std::string LogPath() const;

  std::string dir_;
  bool remove_dir_ = false;
  int dir_lock_ = -1;  // held on the folder, so that no second daemon uses it
  pid_t pid_ = -1;     // -1: none, or already reaped
};

}  // namespace distlock::store
