// SPDX-License-Identifier: Apache-2.0
//
// The operators' HTTP port: /metrics, /healthz, /readyz and a read-only page at /. GET and HEAD only. Owned by main. It
// starts its own threads, which call the handlers: these must be thread-safe and quick, and outlive the server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/address.h"

struct mg_context;

namespace distlock::ops {

// One table of the page. Without `columns` the rows are names and values.
struct PageSection {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct HttpHandlers {
  std::function<std::string()> metrics;            // Prometheus text
  std::function<std::string()> not_alive;          // why the broker must be restarted, in one line; "" if it need not
  std::function<std::string()> not_ready;          // why the broker is not ready, in one line; "" when it is
  std::function<std::vector<PageSection>()> page;  // any text: the server escapes it
};

class HttpServer {
 public:
  // `address` is host:port with an IP address or "localhost"; port 0 lets the kernel choose. The error is one line.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view address, HttpHandlers handlers);
  ~HttpServer();  // returns when no handler runs any more
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return address_.port; }

 private:
  explicit HttpServer(HttpHandlers handlers) : handlers_(std::move(handlers)) {}

  const HttpHandlers handlers_;
  mg_context* context_ = nullptr;
  HostPort address_;  // as bound
};

}  // namespace distlock::ops
