// SPDX-License-Identifier: Apache-2.0
//
// The operators' HTTP port: /metrics, /healthz, /readyz and a read-only page at /, which asks /page.json. GET and HEAD
// only. Owned by main. It starts its own threads, which call the handlers: these must be thread-safe, and outlive the
// server. `not_ready` and `not_granting` must be quick; the others run on a thread of their own, so that no probe waits
// for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "http/server.h"

namespace distlock::ops {

struct HttpHandlers {
  std::function<std::string()> metrics;                       // Prometheus text
  std::function<std::string()> not_alive;                     // why it must be restarted, in one line; "": it need not
  std::function<std::string()> not_ready;                     // why the broker is not ready, in one line; "" when it is
  std::function<std::string()> not_granting;                  // ready, but why it would grant no lock; "" when it would
  std::function<std::string(const std::string& query)> page;  // JSON for page/page.js; `query` as it came
};

class HttpServer {
 public:
  // `address` is host:port with an IP address or "localhost"; port 0 lets the kernel choose. `hosts`: names of this
  // broker besides, in lower case. The error is one line.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view address, HttpHandlers handlers,
                                                           std::vector<std::string> hosts = {});
  ~HttpServer();  // returns when no handler runs any more
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  HttpServer(HttpHandlers handlers, bool is_loopback, std::vector<std::string> hosts);
  bool MayAsk(const http::Request& request) const;
  void Serve(const std::shared_ptr<http::Exchange>& exchange);
  void RenderAll();

  const HttpHandlers handlers_;
  const bool is_loopback_;
  const std::vector<std::string> hosts_;

  // Guarded by mu_.
  std::mutex mu_;
  std::condition_variable more_;
  std::deque<std::shared_ptr<http::Exchange>> asked_;  // for what the renderer answers
  bool stopping_ = false;

  std::unique_ptr<http::Server> server_;
  std::thread renderer_;  // last: it uses the rest
};

}  // namespace distlock::ops
