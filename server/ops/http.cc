// SPDX-License-Identifier: Apache-2.0
#include "ops/http.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "acceptor/address.h"
#include "http/host.h"
#include "ops/page_text.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

// For other machines: probes and scrapers are few.
constexpr unsigned kMostConnectionsPerPeer = 64;
// The page is its own files and nothing else.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

struct File {
  std::string_view path;
  std::string_view type;
  std::string_view text;
};
constexpr File kFiles[] = {{"/", "text/html; charset=utf-8", kPageHtml},
                           {"/page.css", "text/css; charset=utf-8", kPageCss},
                           {"/page.js", "text/javascript; charset=utf-8", kPageJs}};

constexpr std::string_view kForMachines[] = {"/healthz", "/readyz", "/metrics"};
constexpr std::string_view kOfBrowsers[] = {"accept-language", "cookie",         "origin",
                                            "referer",         "sec-fetch-mode", "sec-fetch-site"};

http::Reply Text(int status, std::string body) { return {.status = status, .body = std::move(body), .headers = {}}; }

http::Reply Judged(const std::string& problem, std::string_view good) {
  return problem.empty() ? Text(200, std::string(good)) : Text(503, Cat(problem, "\n"));
}

void Answer(http::Exchange& exchange, http::Reply reply) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"Cache-Control", "no-store"},
                                                                  {"X-Content-Type-Options", "nosniff"},
                                                                  {"Content-Security-Policy", kPolicy},
                                                                  {"Referrer-Policy", "no-referrer"},
                                                                  {"Cross-Origin-Resource-Policy", "same-origin"},
                                                                  {"Connection", "close"}}) {
    reply.headers.emplace_back(name, value);
  }
  exchange.Answer(std::move(reply));
}

http::ServerOptions OptionsFor(std::string_view address, const acceptor::HostPort& parsed) {
  http::ServerOptions options;
  options.address = std::string(address);
  options.max_connections_per_peer = acceptor::IsLoopback(parsed.host) ? 0 : kMostConnectionsPerPeer;
  options.connection_bytes = 16 * 1024;
  options.idle_time = options.request_time;
  options.send_seconds = 5;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(std::string_view address, HttpHandlers handlers,
                                                              std::vector<std::string> hosts) {
  const absl::StatusOr<acceptor::HostPort> parsed = acceptor::ParseHostPort(address);
  if (!parsed.ok()) {
    return absl::FailedPreconditionError(Cat("--http: ", JsonQuoted(address), " ", parsed.status().message()));
  }
  std::unique_ptr<HttpServer> server(
      new HttpServer(std::move(handlers), acceptor::IsLoopback(parsed->host), std::move(hosts)));
  auto started = http::Server::Start(OptionsFor(address, *parsed),
                                     [at = server.get()](const auto& exchange) { at->Serve(exchange); });
  if (!started.ok()) {
    const std::string why(started.status().message());
    const char* const advice = Contains(why, "in use") ? ", or off, which serves none" : "";
    return absl::FailedPreconditionError(Cat("--http: ", why, advice));
  }
  server->server_ = *std::move(started);
  return server;
}

HttpServer::HttpServer(HttpHandlers handlers, bool is_loopback, std::vector<std::string> hosts)
    : handlers_(std::move(handlers)),
      is_loopback_(is_loopback),
      hosts_(std::move(hosts)),
      renderer_([this] { RenderAll(); }) {}

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

bool HttpServer::MayAsk(const http::Request& request) const {
  const auto named = request.All("host");
  if (named.size() == 1 && http::IsHostOf(named.front(), hosts_)) return true;
  // A page elsewhere may have led its own name here. Scrapers and probes may know this broker by other names, too: no
  // browser asks without a Host, or without one of these headers; of them only Accept-Language comes with all it asks.
  if (std::none_of(std::begin(kForMachines), std::end(kForMachines), [&](auto path) { return request.path == path; })) {
    return false;
  }
  const bool by_browser = std::any_of(std::begin(kOfBrowsers), std::end(kOfBrowsers),
                                      [&](auto header) { return !request.All(header).empty(); });
  return !by_browser && (named.empty() || !is_loopback_);
}

void HttpServer::Serve(const std::shared_ptr<http::Exchange>& exchange) {
  const http::Request& request = exchange->request();
  if (request.method != "GET" && request.method != "HEAD") {
    http::Reply reply = Text(405, "only GET and HEAD\n");
    reply.headers.emplace_back("Allow", "GET, HEAD");
    return Answer(*exchange, std::move(reply));
  }
  if (!MayAsk(request)) {
    return Answer(*exchange, Text(421, "the Host must be an IP address, localhost or a name given by --http-host\n"));
  }
  if (request.path == "/healthz") {
    return Answer(*exchange, Judged(handlers_.not_alive ? handlers_.not_alive() : "", "alive\n"));
  }
  if (request.path == "/readyz") {
    const bool grants = request.query == "grants=1" || request.query == "grants=true";
    if (!grants && !request.query.empty()) {
      return Answer(*exchange, Text(400, "/readyz knows one question, grants=1: whether locks are granted\n"));
    }
    std::string problem = handlers_.not_ready();
    if (problem.empty() && grants && handlers_.not_granting) problem = handlers_.not_granting();
    return Answer(*exchange, Judged(problem, "ready\n"));
  }
  for (const File& file : kFiles) {
    if (file.path != request.path) continue;
    return Answer(*exchange, {.type = std::string(file.type), .body = std::string(file.text), .headers = {}});
  }
  if (request.path != "/metrics" && request.path != "/page.json") {
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
      Answer(*exchange, {.type = "application/json", .body = handlers_.page(exchange->request().query), .headers = {}});
    }
    lock.lock();
  }
}

}  // namespace distlock::ops
