// SPDX-License-Identifier: Apache-2.0
#include "ops/http.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

struct Response {
  int status = 200;
  std::string_view reason = "OK";
  std::string_view type = "text/plain; charset=utf-8";
  std::string body;
};

constexpr std::string_view kPageHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>distlock</title>
<meta name="viewport" content="width=device-width"><style>
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}
h1,h2{font-weight:600}table{border-collapse:collapse;width:100%;margin-bottom:2rem}
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #ddd;overflow-wrap:anywhere}
</style></head><body><h1>distlock</h1>
)";
constexpr std::string_view kPageFoot =
    "<p><a href=\"/metrics\">metrics</a> <a href=\"/healthz\">healthz</a> <a href=\"/readyz\">readyz</a></p>"
    "</body></html>\n";

void AppendRow(std::string* html, const std::vector<std::string>& cells, std::string_view tag) {
  *html += Cat("<tr>");
  for (const std::string& cell : cells) *html += Cat("<", tag, ">", HtmlEscaped(cell), "</", tag, ">");
  *html += Cat("</tr>\n");
}

std::string PageHtml(const std::vector<PageSection>& sections) {
  std::string html(kPageHead);
  for (const PageSection& section : sections) {
    html += Cat("<h2>", HtmlEscaped(section.title), "</h2>\n<table>\n");
    if (!section.columns.empty()) AppendRow(&html, section.columns, "th");
    for (const auto& row : section.rows) AppendRow(&html, row, "td");
    html += Cat("</table>\n");
  }
  return Cat(html, kPageFoot);
}

Response Judged(const std::string& problem, std::string_view good) {
  if (problem.empty()) return {.body = std::string(good)};
  return {.status = 503, .reason = "Service Unavailable", .body = Cat(problem, "\n")};
}

Response Answer(const HttpHandlers& handlers, std::string_view method, std::string_view path) {
  if (method != "GET" && method != "HEAD") {
    return {.status = 405, .reason = "Method Not Allowed", .body = "only GET and HEAD\n"};
  }
  if (path == "/metrics") return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = handlers.metrics()};
  if (path == "/healthz") return Judged(handlers.not_alive ? handlers.not_alive() : "", "alive\n");
  if (path == "/readyz") return Judged(handlers.not_ready(), "ready\n");
  if (path == "/") return {.type = "text/html; charset=utf-8", .body = PageHtml(handlers.page())};
  return {.status = 404, .reason = "Not Found", .body = "try / /metrics /healthz /readyz\n"};
}

int HandleRequest(mg_connection* connection) {
  const mg_request_info* request = mg_get_request_info(connection);
  const auto* handlers = static_cast<const HttpHandlers*>(mg_get_user_data(mg_get_context(connection)));
  const std::string_view method = request->request_method;
  const Response response = Answer(*handlers, method, request->local_uri);
  // One write, so that a scraper sees a whole answer or none. The page runs no script and loads nothing.
  std::string bytes =
      Cat("HTTP/1.1 ", response.status, " ", response.reason, "\r\nContent-Type: ", response.type,
          "\r\nContent-Length: ", response.body.size(), response.status == 405 ? "\r\nAllow: GET, HEAD" : "",
          "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
          "\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
          "\r\nConnection: close\r\n\r\n");
  if (method != "HEAD") bytes += response.body;
  mg_write(connection, bytes.data(), bytes.size());
  return response.status;
}

// civetweb reports why it could not start only in its log, on the thread that starts it.
thread_local std::string* start_problem = nullptr;

int KeepMessage(const mg_connection*, const char* message) {
  if (start_problem != nullptr && start_problem->empty()) *start_problem = message;
  return 1;
}

mg_context* StartCivetweb(const std::string& ports, const HttpHandlers& handlers, std::string* problem) {
  // No document root: only the handler answers. A connection that sends nothing, such as a browser's spare one, blocks
  // a thread until the request timeout and up to a second longer. A probe must be answered meanwhile, and kubelet waits
  // one second. So there are many threads, which cost little while they wait, and a short request timeout.
  const std::array settings = {"listening_ports",
                               ports.c_str(),
                               "num_threads",
                               "32",
                               "request_timeout_ms",
                               "500",
                               "max_request_size",
                               "8192",
                               "enable_keep_alive",
                               "no",
                               "enable_directory_listing",
                               "no",
                               static_cast<const char*>(nullptr)};
  mg_callbacks callbacks{};
  callbacks.begin_request = HandleRequest;
  callbacks.log_message = KeepMessage;
  mg_init_data init{};
  init.user_data = const_cast<HttpHandlers*>(&handlers);
  init.callbacks = &callbacks;
  init.configuration_options = const_cast<const char**>(settings.data());
  std::array<char, 256> text{};
  mg_error_data error{};
  error.text = text.data();
  error.text_buffer_size = text.size();

  start_problem = problem;
  mg_context* context = mg_start2(&init, &error);
  start_problem = nullptr;
  if (problem->empty()) *problem = text.data();
  return context;
}

// Wakes civetweb's accept loop: connects to it and closes the connection. May fail.
void Knock(const HostPort& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(address.port));
  if (inet_pton(AF_INET, address.host.c_str(), &to.sin_addr) != 1) return;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(std::string_view address, HttpHandlers handlers) {
  const auto error = [&](const auto& what) {
    return absl::FailedPreconditionError(Cat("--http: ", JsonQuoted(address), " ", what));
  };
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return error(parsed.status().message());
  if (Contains(parsed->host, ":") && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return error("is IPv6, which this machine's civetweb is built without: use an IPv4 address");
  }
  if (parsed->host == "localhost") parsed->host = "127.0.0.1";

  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handlers)));
  std::string problem;
  server->context_ = StartCivetweb(FormatHostPort(*parsed), server->handlers_, &problem);
  if (server->context_ == nullptr) return error(Cat("cannot be served: ", problem));
  mg_server_port bound{};
  if (mg_get_server_ports(server->context_, 1, &bound) != 1) return error("was bound to no port");
  server->address_ = {parsed->host, bound.port};
  return server;
}

HttpServer::~HttpServer() {
  if (context_ == nullptr) return;
  std::future<void> stopped = std::async(std::launch::async, mg_stop, context_);
  // civetweb checks whether to stop at each connection and every two seconds, which is too slow for an exit.
  while (stopped.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) Knock(address_);
}

}  // namespace distlock::ops
