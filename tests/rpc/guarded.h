// SPDX-License-Identifier: Apache-2.0
//
// A broker with a policy, for tests of who may do what. One thread, but for what the broker calls.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "access/pattern_text.h"
#include "access/policy_file.h"
#include "contract/lease_id.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {

inline constexpr int64_t kNow = 1'700'000'000;

inline std::shared_ptr<const access::Policy> PolicyOf(const std::string& text) {
  auto policy = access::ParsePolicy("version: 1\n" + text, "p");
  EXPECT_TRUE(policy.ok()) << policy.status();
  return std::make_shared<const access::Policy>(policy.ok() ? *policy : access::Policy());
}

// A broker behind an authorizer, whose callers have the uid that `uid` says.
struct Guarded {
  explicit Guarded(const std::string& rules, bool allow_all = false)
      : authorizer({.asks = true,
                    .allow_all = allow_all,
                    .on_access =
                        [this](const AccessEvent& event) {
                          std::lock_guard lock(mu);
                          seen.emplace_back(event.outcome, std::string(event.rule));
                        },
                    .unix_seconds = [this] { return now_s.load(); },
                    .boot_ns = [] { return int64_t{0}; }}) {
    authorizer.Replace(PolicyOf(rules), nullptr, nullptr);
    TestOptions options;
    options.server.authorizer = &authorizer;
    options.server.unix_peer_of = [this](std::string_view) {
      return std::optional(access::UnixPeer{.uid = uid, .gid = 0, .groups = {}});
    };
    broker = std::make_unique<TestBroker>(options);
  }
  void Use(const std::string& rules) {
    authorizer.Replace(PolicyOf(rules), nullptr, nullptr);
    broker->server().Review();
  }
  std::vector<std::pair<AccessOutcome, std::string>> Seen() {
    std::lock_guard lock(mu);
    return seen;
  }

  std::atomic<uint32_t> uid = 7;
  std::atomic<int64_t> now_s = kNow;
  std::mutex mu;
  std::vector<std::pair<AccessOutcome, std::string>> seen;
  Authorizer authorizer;
  std::unique_ptr<TestBroker> broker;
};

inline std::string LeaseOf(const std::string& key) {
  return contract::EncodeLeaseId({.name = core::LockName::Encode("default", key),
                                  .owner = {1},
                                  .ttl = std::chrono::seconds(5),
                                  .hold_until = {},
                                  .token = 1});
}

inline v1::LockSpec Spec(const std::string& key, v1::LockMode mode = v1::LOCK_MODE_EXCLUSIVE) {
  v1::LockSpec lock;
  lock.set_key(key);
  lock.set_mode(mode);
  if (mode == v1::LOCK_MODE_PERMIT) lock.set_limit(3);
  lock.mutable_max_wait();
  return lock;
}

template <typename Request, typename Response, typename Service>
grpc::Status Unary(Service& service, grpc::Status (Service::*call)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request) {
  grpc::ClientContext context;
  Response response;
  return (service.*call)(&context, request, &response);
}

}  // namespace distlock::rpc
