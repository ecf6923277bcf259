// SPDX-License-Identifier: Apache-2.0
//
// EtcdServer: a fresh etcd of one member on loopback TCP, from Debian's package, with its own defaults and its data in
// the Lab's folder. It lives for one case only, so that it takes no CPU from other rows. Main thread.
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
  // A lease that lasts longer than every measurement. Throws std::runtime_error.
  int64_t NewLease();

 private:
  void Start();

  const std::string data_;  // folder
  std::unique_ptr<Child> child_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v3lockpb::Lock::Stub> locks_;
};

}  // namespace distlock::bench
