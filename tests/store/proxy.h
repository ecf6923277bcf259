// SPDX-License-Identifier: Apache-2.0
//
// A TCP proxy in front of a server's unix socket that misbehaves on demand. It has a thread of its own; its methods may
// be called from any other. Listens on a port of 127.0.0.1 that the kernel chooses.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "store/store_url.h"

namespace distlock::store {

class Proxy {
 public:
  explicit Proxy(std::string server_socket);
  ~Proxy();

  StoreUrl Url() const;

  void PauseReplies(bool on) { pause_replies_ = on; }
  void PauseRequests(bool on) { pause_requests_ = on; }
  // After so many more bytes from the server, all connections are reset. Negative: never.
  void ResetAfterReplyBytes(int64_t bytes) { reply_budget_ = bytes; }
  void ResetAll() { reset_all_ = true; }
  // Sent to the client of each connection that is open at that time.
  void Inject(const std::string& bytes);
  void RefuseNew(bool on) { refuse_new_ = on; }
  // A connection that the server ends stays open towards the client, and silent.
  void HideCloses(bool on) { hide_closes_ = on; }
  // Connections accepted from now on lead to another server; those that are open stay where they are.
  void LeadTo(std::string server_socket);

  uint64_t accepted() const { return accepted_; }
  uint64_t request_bytes() const { return request_bytes_; }

 private:
  struct Pair {
    int client = -1;
    int server = -1;
    bool server_ended = false;  // and the client must not know
    bool dead = false;
  };
  void Run();
  void AcceptOne();
  void Shovel(Pair& pair, bool from_server);
  static void Reset(Pair& pair);

  std::mutex lead_;
  std::string server_socket_;  // guarded by lead_
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<bool> pause_replies_{false};
  std::atomic<bool> pause_requests_{false};
  std::atomic<bool> refuse_new_{false};
  std::atomic<bool> hide_closes_{false};
  std::atomic<bool> reset_all_{false};
  std::atomic<bool> inject_{false};
  std::atomic<int64_t> reply_budget_{-1};
  std::atomic<uint64_t> accepted_{0};
  std::atomic<uint64_t> request_bytes_{0};
  std::string injection_;  // written before inject_, read after it
  std::list<Pair> pairs_;  // the proxy's thread
  std::thread thread_;
};

}  // namespace distlock::store
