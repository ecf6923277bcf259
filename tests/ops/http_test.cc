// SPDX-License-Identifier: Apache-2.0
//
// The HTTP port as a scraper, a probe and a browser see it, over a plain socket.
#include "ops/http.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

namespace distlock::ops {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int Connected(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

std::string Exchange(int port, const std::string& request) {
  const int fd = Connected(port);
  EXPECT_GE(fd, 0);
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, static_cast<size_t>(n));
  close(fd);
  return answer;
}

bool StillOpen(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

class HttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<HttpServer>> started = HttpServer::Start("127.0.0.1:0", Handlers());
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    ASSERT_GT(server_->port(), 0);
  }

  HttpHandlers Handlers() {
    return {.metrics = [this] { return metrics_; },
            .not_ready = [this] { return store_down_ ? std::string("store: connection refused") : std::string(); },
            .page = [](const std::string& query) { return "{\"query\":\"" + query + "\"}\n"; }};
  }

  std::string Request(const std::string& method, const std::string& path) {
    return Exchange(server_->port(), method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  std::string Get(const std::string& path) { return Request("GET", path); }

  std::string metrics_ = "distlock_grants_total 42\n";
  std::atomic<bool> store_down_{false};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTest, MetricsAreScrapedWhole) {
  const std::string answer = Get("/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("distlock_grants_total 42\n"));
  const size_t body = answer.find("\r\n\r\n") + 4;
  EXPECT_THAT(answer, HasSubstr("Content-Length: " + std::to_string(answer.size() - body) + "\r\n"));
}

TEST_F(HttpTest, ProbesTellAliveFromReady) {
  EXPECT_THAT(Get("/healthz"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nalive\n")));
  EXPECT_THAT(Get("/readyz"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nready\n")));
  store_down_ = true;
  EXPECT_THAT(Get("/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\nstore: connection refused\n")));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpTest, ThePageIsItsOwnFilesUnderStrictRules) {
  const std::string page = Get("/");
  EXPECT_THAT(page, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Type: text/html"),
                          HasSubstr("<script src=\"page.js\""), EndsWith("</html>\n")));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "));
  EXPECT_THAT(page, Not(HasSubstr("unsafe")));
  EXPECT_THAT(page, Not(HasSubstr("style=")));
  EXPECT_THAT(Get("/page.js"), AllOf(HasSubstr("Content-Type: text/javascript"), HasSubstr("X-Content-Type-Options")));
  EXPECT_THAT(Get("/page.js"), AllOf(Not(HasSubstr("innerHTML")), Not(HasSubstr("eval("))));
  EXPECT_THAT(Get("/page.css"), HasSubstr("Content-Type: text/css"));
}

TEST_F(HttpTest, WhatThePageAsksIsForThisMachinesNamesOnly) {
  EXPECT_THAT(Get("/page.json?prefix=a%2Fb"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: application/json"), HasSubstr("no-store"),
                    EndsWith("\r\n\r\n{\"query\":\"prefix=a%2Fb\"}\n")));
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", ""}) {
    const std::string request = std::string("GET /page.json HTTP/1.1\r\nHost: ") + host + "\r\n\r\n";
    EXPECT_THAT(Exchange(server_->port(), request), StartsWith("HTTP/1.1 421 ")) << host;
  }
}

std::string Asking(const std::string& path, const std::string& headers) {
  return "GET " + path + " HTTP/1." + (headers.find("Host:") == headers.npos ? "0" : "1") + "\r\n" + headers + "\r\n";
}

TEST_F(HttpTest, OnLoopbackNothingIsForOtherNames) {
  for (const char* path : {"/", "/page.js", "/page.json", "/metrics", "/healthz", "/readyz", "/x"}) {
    for (const char* host : {"evil.example", "evil.example:9420", "localhost:80@evil.example", "[::1].evil.example"}) {
      EXPECT_THAT(Exchange(server_->port(), Asking(path, std::string("Host: ") + host + "\r\n")),
                  StartsWith("HTTP/1.1 421 "))
          << path << " " << host;
    }
  }
  for (const char* host : {"127.0.0.1:9420", "[::1]:9420", "LOCALHOST", "10.0.0.7"}) {
    EXPECT_THAT(Exchange(server_->port(), Asking("/metrics", std::string("Host: ") + host + "\r\n")),
                StartsWith("HTTP/1.1 200 "))
        << host;
  }
  EXPECT_THAT(Exchange(server_->port(), Asking("/healthz", "")), HasSubstr(" 200 ")) << "a probe of HTTP/1.0";
  EXPECT_THAT(Exchange(server_->port(), Asking("/page.json", "")), HasSubstr(" 421 "));
}

TEST(HttpHosts, ScrapersMayUseAnyNameAndBrowsersOnlyThoseGiven) {
  const HttpHandlers handlers{.metrics = [] { return std::string("m 1\n"); },
                              .not_ready = [] { return std::string(); },
                              .page = [](const std::string&) { return std::string("{}\n"); }};
  auto started = HttpServer::Start("0.0.0.0:0", handlers, {"locks.example"});
  ASSERT_TRUE(started.ok()) << started.status();
  const auto status = [&](const std::string& path, const std::string& headers) {
    return Exchange((*started)->port(), Asking(path, headers)).substr(9, 3);
  };
  const std::string host = "Host: distlock.prod.svc:9420\r\nUser-Agent: Prometheus/2.53\r\n";
  for (const char* path : {"/metrics", "/healthz", "/readyz"}) {
    EXPECT_EQ(status(path, host), "200") << path;
    for (const char* header :
         {"Accept-Language: en", "Accept-Language:", "Origin: http://distlock.prod.svc:9420",
          "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Referer: http://x/", "Cookie: a"}) {
      EXPECT_EQ(status(path, host + header + "\r\n"), "421") << path << " " << header;
      EXPECT_EQ(status(path, std::string("Host: locks.example:9420\r\n") + header + "\r\n"), "200") << path;
      EXPECT_EQ(status(path, std::string("Host: 10.0.0.7:9420\r\n") + header + "\r\n"), "200") << path;
    }
  }
  for (const char* path : {"/", "/page.json", "/page.css"}) {
    EXPECT_EQ(status(path, host), "421") << path;
    EXPECT_EQ(status(path, "Host: locks.example\r\n"), "200") << path;
  }
}

TEST_F(HttpTest, HeadHasNoBodyAndQueriesAreIgnored) {
  EXPECT_THAT(Request("HEAD", "/healthz"), AllOf(HasSubstr("Content-Length: 6\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Get("/healthz?verbose=1"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpTest, NothingElseIsServed) {
  for (const char* path : {"/x", "/metrics/x", "/../etc/passwd", "/%2e%2e/etc/passwd", "/.", "/healthz/"}) {
    EXPECT_THAT(Get(path), Not(HasSubstr("root:"))) << path;
  }
  EXPECT_THAT(Get("/x"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/%2e%2e/etc/passwd"), StartsWith("HTTP/1.1 404 "));
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    EXPECT_THAT(Request(method, "/metrics"), AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")))
        << method;
  }
}

TEST_F(HttpTest, AnOversizedOrBrokenRequestDoesNotHurtTheNext) {
  EXPECT_THAT(Get("/" + std::string(20000, 'a')), Not(HasSubstr(" 200 ")));
  EXPECT_THAT(Exchange(server_->port(), "\x16\x03\x01 nonsense\r\n\r\n"), Not(HasSubstr(" 200 ")));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpTest, ProbesAreAnsweredBesideIdleConnections) {
  // If the test machine pauses for too long, the server closes all of these connections first; then the next attempt
  // decides.
  size_t open = 0;
  for (int attempt = 0; open == 0 && attempt < 3; ++attempt) {
    std::vector<int> idle(24);
    for (int& fd : idle) fd = Connected(server_->port());
    EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
    open = std::count_if(idle.begin(), idle.end(), StillOpen);
    if (open < idle.size()) open = 0;
    for (const int fd : idle) close(fd);
  }
  EXPECT_GT(open, 0u) << "the probe waited until the server closed an idle connection";
}

TEST_F(HttpTest, AnIdleConnectionIsClosed) {
  const int idle = Connected(server_->port());
  pollfd ended{idle, POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 60'000), 1);
  close(idle);
}

TEST_F(HttpTest, ManyScrapersAtOnceAllGetAnAnswer) {
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 10; ++j) answered += Get("/metrics").starts_with("HTTP/1.1 200 ") ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 80);
}

TEST_F(HttpTest, APortInUseIsOneClearLine) {
  const std::string address = "127.0.0.1:" + std::to_string(server_->port());
  const absl::StatusOr<std::unique_ptr<HttpServer>> second = HttpServer::Start(address, Handlers());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(StartsWith("--http: cannot listen on " + address + ": "), HasSubstr("Address already in use; "),
                    EndsWith("stop it, or choose another address, or off, "
                             "which serves none"),
                    Not(HasSubstr("\n"))));
}

TEST_F(HttpTest, AddressesThatCannotBeServedSayWhy) {
  const auto problem = [this](const char* address) {
    return std::string(HttpServer::Start(address, Handlers()).status().message());
  };
  EXPECT_THAT(problem("9420"), HasSubstr("has no port"));
  EXPECT_THAT(problem("192.0.2.1:0"), HasSubstr("cannot listen on"));
  EXPECT_THAT(problem("no.such.host.invalid:0"), HasSubstr("cannot listen on"));
}

TEST_F(HttpTest, ItStopsWithConnectionsOpenAndFreesThePort) {
  const int port = server_->port();
  const int idle = Connected(port);
  server_.reset();
  close(idle);
  EXPECT_LT(Connected(port), 0);
}

TEST_F(HttpTest, LocalhostIsServed) {
  const absl::StatusOr<std::unique_ptr<HttpServer>> local = HttpServer::Start("localhost:0", Handlers());
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_THAT(Exchange((*local)->port(), "GET /healthz HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace distlock::ops
