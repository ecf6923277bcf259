// SPDX-License-Identifier: Apache-2.0
//
// Requests over HTTP, and their answers. Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acceptor/connection.h"

namespace distlock::http {

struct Peer {
  std::string address;       // "ipv4:127.0.0.1:4242", "ipv6:[::1]:4242" or "unix:", as gRPC writes them
  bool is_loopback = false;  // also of a unix socket: what is sent stays on this machine
  std::optional<acceptor::Credentials> user;  // of a unix socket
  std::string counts_as;                      // who counts as one with it, as peer/names.h says
};

struct Request {
  std::string method;
  std::string path;                                          // still percent-encoded, without the query
  std::string query;                                         // behind the ?; still percent-encoded
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, in their order
  std::string body;
  Peer peer;

  // All values of a header; `name` in lower case.
  std::vector<std::string_view> All(std::string_view name) const;
  // The first value; "" when there is none.
  std::string_view Header(std::string_view name) const;
};

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // more than Content-Type and Content-Length
};

}  // namespace distlock::http
