// SPDX-License-Identifier: Apache-2.0
//
// EtcdServer: a fresh etcd of one member on loopback TCP, as Debian ships it and with its own defaults, data in the
// Lab's folder. It lives as long as one case, so that no other row shares the machine with it. Main thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bench/lab.h"
#include "bench/process.h"
#include "etcd_lock.grpc.pb.h"

namespace distlock::bench {

class EtcdServer {
 public:
  // Returns when it serves; throws std::runtime_error when it does not.
  explicit EtcdServer(const Lab& lab);
  ~EtcdServer();

  v3lockpb::Lock::Stub& locks() { return *locks_; }
  // One that outlives every measurement. Throws std::runtime_error.
  int64_t NewLease();

 private:
  void Start();

  const std::string data_;  // folder
  std::unique_ptr<Child> child_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v3lockpb::Lock::Stub> locks_;
};

}  // namespace distlock::bench
