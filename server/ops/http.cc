// SPDX-License-Identifier: Apache-2.0
#include "ops/http.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "ops/address.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

// Of other machines: probes and scrapers are few.
constexpr unsigned kMostConnectionsPerAddress = 64;

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

http::Reply Text(int status, std::string body) { return {.status = status, .body = std::move(body), .headers = {}}; }

http::Reply Ready(const HttpHandlers& handlers) {
  const std::string problem = handlers.not_ready();
  return problem.empty() ? Text(200, "ready\n") : Text(503, Cat(problem, "\n"));
}

// The page runs no script and loads nothing.
void Answer(http::Exchange& exchange, http::Reply reply) {
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"Cache-Control", "no-store"},
           {"X-Content-Type-Options", "nosniff"},
           {"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"},
           {"Connection", "close"}}) {
    reply.headers.emplace_back(name, value);
  }
  exchange.Answer(std::move(reply));
}

http::ServerOptions OptionsFor(std::string_view address, const HostPort& parsed) {
  http::ServerOptions options;
  options.address = std::string(address);
  options.max_connections_per_address = IsLoopback(parsed.host) ? 0 : kMostConnectionsPerAddress;
  options.connection_bytes = 16 * 1024;
  options.idle_time = options.request_time;
  options.send_seconds = 5;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(std::string_view address, HttpHandlers handlers) {
  const auto error = [&](const auto& what) {
    return absl::FailedPreconditionError(Cat("--http: ", JsonQuoted(address), " ", what));
  };
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return error(parsed.status().message());
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handlers)));
  auto started = http::Server::Start(OptionsFor(address, *parsed),
                                     [at = server.get()](const auto& exchange) { at->Serve(exchange); });
  if (!started.ok()) return error(started.status().message());
  server->server_ = *std::move(started);
  return server;
}

HttpServer::HttpServer(HttpHandlers handlers) : handlers_(std::move(handlers)), renderer_([this] { RenderAll(); }) {}

HttpServer::~HttpServer() {
  server_.reset();
  {
    std::lock_guard lock(mu_);
    stopping_ = true;
  }
  more_.notify_one();
  renderer_.join();
}

int HttpServer::port() const { return server_->port(); }

void HttpServer::Serve(const std::shared_ptr<http::Exchange>& exchange) {
  const http::Request& request = exchange->request();
  if (request.method != "GET" && request.method != "HEAD") {
    http::Reply reply = Text(405, "only GET and HEAD\n");
    reply.headers.emplace_back("Allow", "GET, HEAD");
    return Answer(*exchange, std::move(reply));
  }
  if (request.path == "/healthz") return Answer(*exchange, Text(200, "alive\n"));
  if (request.path == "/readyz") return Answer(*exchange, Ready(handlers_));
  if (request.path != "/metrics" && request.path != "/") {
    return Answer(*exchange, Text(404, "try / /metrics /healthz /readyz\n"));
  }
  {
    std::lock_guard lock(mu_);
    // So that a scrape waits for one page at most.
    request.path == "/metrics" ? asked_.push_front(exchange) : asked_.push_back(exchange);
  }
  more_.notify_one();
}

void HttpServer::RenderAll() {
  std::unique_lock lock(mu_);
  while (true) {
    more_.wait(lock, [this] { return stopping_ || !asked_.empty(); });
    if (stopping_) return;
    const auto exchange = std::move(asked_.front());
    asked_.pop_front();
    if (exchange->IsAnswered()) continue;  // its client has left
    lock.unlock();
    if (exchange->request().path == "/metrics") {
      Answer(*exchange,
             {.type = "text/plain; version=0.0.4; charset=utf-8", .body = handlers_.metrics(), .headers = {}});
    } else {
      Answer(*exchange, {.type = "text/html; charset=utf-8", .body = PageHtml(handlers_.page()), .headers = {}});
    }
    lock.lock();
  }
}

}  // namespace distlock::ops
