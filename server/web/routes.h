// SPDX-License-Identifier: Apache-2.0
//
// Which HTTP request is which call of the contract. `openapi.py` reads this table, too. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "http/request.h"

namespace distlock::web {

struct Route {
  std::string_view method;
  std::string_view path;     // {name} stands for a field of the request; the last one of a path may hold slashes
  std::string_view service;  // of gRPC
  std::string_view call;
};

inline constexpr Route kRoutes[] = {
    {"POST", "/v1/acquire", "distlock.v1.LockService", "Acquire"},
    {"POST", "/v1/renew", "distlock.v1.LockService", "Renew"},
    {"POST", "/v1/release", "distlock.v1.LockService", "Release"},
    {"POST", "/v1/downgrade", "distlock.v1.LockService", "Downgrade"},
    {"GET", "/v1/locks", "distlock.v1.LockService", "ListLocks"},
    {"GET", "/v1/locks/{namespace}/{key}", "distlock.v1.LockService", "GetLock"},
    {"GET", "/v1/check-token/{namespace}/{key}", "distlock.v1.LockService", "CheckToken"},
    {"GET", "/v1/watch", "distlock.v1.LockService", "WatchLocks"},
    {"GET", "/v1/watch/{namespace}/{key}", "distlock.v1.LockService", "WatchLock"},
    {"GET", "/v1/status", "distlock.v1.AdminService", "GetStatus"},
    {"GET", "/v1/sessions", "distlock.v1.AdminService", "ListSessions"},
    {"POST", "/v1/force-release", "distlock.v1.AdminService", "ForceRelease"},
    {"POST", "/v1/can-i", "distlock.v1.AdminService", "CheckAccess"},
    {"GET", "/health", "grpc.health.v1.Health", "Check"},
};

using Fields = std::vector<std::pair<std::string, std::string>>;  // name and text, decoded

struct Matched {
  const Route* route = nullptr;
  Fields fields;  // of the path and of the query
};
// Why there is no such request.
struct NoRoute {
  int status = 404;   // or 405
  std::string allow;  // of 405
  std::string problem;
};

std::variant<Matched, NoRoute> FindRoute(const http::Request& request);

// The fields of a query. nullopt: as below.
std::optional<Fields> QueryFields(std::string_view query);

// nullopt: a % without two hex digits behind it.
std::optional<std::string> PercentDecoded(std::string_view text);

}  // namespace distlock::web
