// SPDX-License-Identifier: Apache-2.0
//
// A private redis-server or valkey-server on a unix socket, for one machine and one daemon. It writes nothing to disk.
// It dies with the daemon, even when the daemon is killed; with `outlives` it does not, and the next daemon with the
// same folder goes on with it and its locks.
//
// Thread: Start, Stop and destruction on the one thread that lives as long as the daemon (main's): the kernel ties the
// child's death to the thread that made it, not to the process. Destruction stops the server, unless it outlives the
// daemon. The folder is 0700. A temporary folder is removed at the end, or, when the daemon was killed, by the next
// daemon; a given folder keeps the server's log.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/store_url.h"

namespace distlock::store {

struct EmbeddedOptions {
  std::string server;     // path or name; "" = redis-server, else valkey-server, from PATH
  std::string dir;        // made when missing; "" = a new folder in TMPDIR or /tmp
  bool outlives = false;  // in a session of its own, until it is ended by hand (store.pid); needs `dir`
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
  // Whether a daemon before this one has started it.
  bool found_again() const { return found_again_; }
  const std::string& dir() const { return dir_; }

  // False when the server has ended by itself; then its locks are gone with it.
  bool Running();
  std::string LogTail() const;

  // Leaves a server that outlives the daemon as it is.
  void Stop();

 private:
  EmbeddedServer() = default;
  absl::Status MakeDir(const EmbeddedOptions& options);
  absl::Status FindAgain(std::chrono::milliseconds patience);
  absl::Status Launch(const EmbeddedOptions& options);
  absl::Status Spawn(const std::string& program, bool outlives);
  absl::Status AwaitReady(std::chrono::milliseconds timeout);
  std::string SocketPath() const;
  std::string LogPath() const;

  std::string dir_;
  bool remove_dir_ = false;
  int dir_lock_ = -1;      // held on the folder, so that no second daemon uses it
  pid_t pid_ = -1;         // -1: none, or already reaped
  bool launched_ = false;  // by this daemon, in this folder
  bool outlives_ = false;
  bool found_again_ = false;
  int ended_ = -1;  // a pidfd of a server that was found again, which is no child; -1: it is, or cannot be watched
};

}  // namespace distlock::store
