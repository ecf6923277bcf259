// SPDX-License-Identifier: Apache-2.0
#include "web/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distlock/v1/lock_service.pb.h"
#include "web/guard.h"
#include "web/messages.h"

namespace distlock::web {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

http::Request Asked(std::string method, std::string path, std::string query = "") {
  return {.method = std::move(method), .path = std::move(path), .query = std::move(query)};
}

// "" for what is no request.
std::string CallOf(const http::Request& request) {
  const auto found = FindRoute(request);
  const auto* matched = std::get_if<Matched>(&found);
  return matched == nullptr ? "" : std::string(matched->route->call);
}

Fields FieldsOf(const http::Request& request) {
  const auto found = FindRoute(request);
  const auto* matched = std::get_if<Matched>(&found);
  return matched == nullptr ? Fields() : matched->fields;
}

int StatusOf(const http::Request& request) {
  const auto found = FindRoute(request);
  const auto* none = std::get_if<NoRoute>(&found);
  return none == nullptr ? 200 : none->status;
}

TEST(Routes, EachIsACallOfTheContract) {
  for (const Route& route : kRoutes) {
    const auto* method = MethodOf(route);
    // A service not linked into this test is unknown.
    if (route.service != "distlock.v1.LockService") continue;
    ASSERT_NE(method, nullptr) << route.call;
    EXPECT_FALSE(method->client_streaming()) << route.call;
  }
}

TEST(Routes, KeysMayHoldWhatSeparates) {
  EXPECT_THAT(FieldsOf(Asked("GET", "/v1/locks/ns/a/b%2Fc%25")),
              ElementsAre(Pair("namespace", "ns"), Pair("key", "a/b/c%")));
  EXPECT_THAT(FieldsOf(Asked("GET", "/v1/locks/n%2Fs/..")), ElementsAre(Pair("namespace", "n/s"), Pair("key", "..")));
  EXPECT_THAT(FieldsOf(Asked("GET", "/v1/locks/a/b+c", "maxWaiters=1&&x=a+b%2B")),
              ElementsAre(Pair("namespace", "a"), Pair("key", "b+c"), Pair("maxWaiters", "1"), Pair("x", "a b+")));
}

TEST(Routes, WhatThereIsNotSaysSo) {
  EXPECT_EQ(CallOf(Asked("HEAD", "/v1/locks")), "ListLocks");
  for (const char* path : {"", "/", "/v1", "/v1/lock", "/v1/locks/", "/v1/locks/a", "/v1/locks//k", "/v1/locks/a/",
                           "/v1/acquire/", "/v1/renew/x", "//v1/locks"}) {
    EXPECT_EQ(StatusOf(Asked("GET", path)), 404) << path;
  }
  EXPECT_EQ(StatusOf(Asked("GET", "/v1/acquire")), 405);
  EXPECT_EQ(StatusOf(Asked("DELETE", "/v1/locks/a/b")), 405);
  for (const char* bad : {"%", "%1", "%g0", "a%2", "%%"}) {
    EXPECT_EQ(StatusOf(Asked("GET", std::string("/v1/locks/a/") + bad)), 400) << bad;
    EXPECT_EQ(StatusOf(Asked("GET", "/v1/locks", std::string("keyPrefix=") + bad)), 400) << bad;
  }
}

TEST(Routes, WhatIsShownIsText) {
  const auto found = FindRoute(Asked("GET", std::string("/\xff\n\x01") + std::string(1000, 'x')));
  const std::string& problem = std::get<NoRoute>(found).problem;
  EXPECT_THAT(problem, HasSubstr("/?\\n\\001xxx"));
  EXPECT_LT(problem.size(), 300U);
}

TEST(Messages, FieldsAreReadByEitherName) {
  v1::GetLockRequest request;
  EXPECT_EQ(ReadFields({{"namespace", "a"}, {"max_waiters", "3"}}, &request), std::nullopt);
  EXPECT_EQ(request.namespace_(), "a");
  EXPECT_EQ(request.max_waiters(), 3);
  for (const Fields& bad : {Fields{{"maxWaiters", "3x"}}, Fields{{"maxWaiters", "9999999999"}}, Fields{{"nope", "1"}},
                            Fields{{"key", "a"}, {"key", "b"}}, Fields{{"key", "\xff"}}}) {
    EXPECT_NE(ReadFields(bad, &request), std::nullopt) << bad.front().first << "=" << bad.front().second;
  }
}

TEST(Messages, JsonThatIsNoneSaysWhatIsWrong) {
  v1::AcquireRequest request;
  EXPECT_EQ(ReadJson(R"({"locks":[{"key":"k","maxWait":"1.5s","max_hold":"2s"}]})", &request), std::nullopt);
  EXPECT_EQ(request.locks(0).max_wait().nanos(), 500'000'000);
  std::string deep;
  for (int i = 0; i < 30'000; ++i) deep += '[';
  const std::string many[] = {"",       "[]",  R"({"lokcs":[]})",        R"({"locks":[{"ttl":"1"}]})",
                              "{}x",    "{",   R"({"locks":{"key":1}})", R"({"locks":[{"metadata":{"a":{}}}]})",
                              "\xff{}", "nul", R"({"locks":)" + deep};
  for (const std::string& bad : many) {
    v1::AcquireRequest into;
    EXPECT_NE(ReadJson(bad, &into), std::nullopt) << bad.substr(0, 60);
  }
  EXPECT_THAT(*ReadJson(R"({"lokcs":[]})", &request), HasSubstr("lokcs"));
}

TEST(Messages, JsonIsReadInOneWayOnly) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"locks":[{"key":"d1","key":"d2"}]})", "duplicate"},
      {R"({"locks":[{"key":"d1"}],"locks":[{"key":"d2"}]})", "duplicate"},
      {R"({"locks":[{"key":"d1","k\u0065y":"d2"}]})", "duplicate"},
      {R"({"locks":[{"key":"k","metadata":{"a":"1","a":"2"}}]})", "duplicate"},
      {R"({"locks":[{"key":"k","maxWait":"1s","max_wait":"2s"}]})", "max_wait is given twice"},
      {R"({"requestId":"a","request_id":"b"})", "request_id is given twice"},
      {R"({locks:[{"key":"k"}]})", "line 1"},
      {R"({'locks':[{"key":"k"}]})", "line 1"},
      {R"({"locks":[{"key":'k'}]})", "line 1"},
      {R"({"locks":[{"key":"k"},]})", "line 1"},
      {R"({"locks":[{"key":"k"}]} {})", "line 1"},
      {R"({"locks":[{"key":"k"}]} // x)", "line 1"},
  };
  for (const auto& [body, why] : bad) {
    v1::AcquireRequest into;
    EXPECT_THAT(ReadJson(body, &into).value_or(""), HasSubstr(why)) << body;
    EXPECT_EQ(into.locks_size(), 0) << body;
  }
  v1::AcquireRequest good;
  EXPECT_EQ(ReadJson(R"({"locks":[{"key":"\u0000","metadata":{"a_b":"1","aB":"2"}},{"key":"k"}]})", &good),
            std::nullopt);
  EXPECT_EQ(good.locks(0).metadata_size(), 2);
}

int Guarded(std::vector<std::pair<std::string, std::string>> headers, const std::string& method = "GET") {
  const auto refused = RefusedAtOnce({.method = method, .headers = std::move(headers)}, {"locks.example"});
  return refused ? refused->status : 200;
}

TEST(Guard, HostsOfOthersAreRefused) {
  for (const char* host : {"localhost", "LOCALHOST:1", "10.0.0.7", "10.0.0.7:80", "[fe80::1]:9", "[::1]",
                           "localhost:", "locks.example", "Locks.Example:443"}) {
    EXPECT_EQ(Guarded({{"host", host}}), 200) << host;
  }
  for (const char* host : {"",
                           "evil.example",
                           "localhost.evil.example",
                           "1.2.3",
                           "0x7f.1",
                           "[::1",
                           "[",
                           "locks.example.",
                           "127.0.0.1.nip.example",
                           ":80",
                           "[::1].evil.example",
                           "[::1]evil.example",
                           "[::1]:80@evil.example",
                           "localhost:80@evil.example",
                           "localhost:80:81",
                           "localhost:+80",
                           "localhost:65536",
                           "localhost:8 0",
                           "[127.0.0.1]",
                           "[localhost]",
                           "[]",
                           "[::1]]",
                           "127.0.0.1:80/x",
                           "u@localhost",
                           "localhost,evil"}) {
    EXPECT_EQ(Guarded({{"host", host}}), 421) << host;
  }
  EXPECT_EQ(Guarded({}), 421);
  EXPECT_EQ(Guarded({{"host", "localhost"}, {"host", "localhost"}}), 421);
}

TEST(Guard, PagesOfOthersAreRefused) {
  EXPECT_EQ(Guarded({{"host", "localhost:1"}, {"origin", "http://localhost:1"}}), 200);
  EXPECT_EQ(Guarded({{"host", "localhost:1"}, {"origin", "https://LOCALHOST:1"}}), 200);
  for (const char* origin : {"http://localhost", "http://localhost:2", "null", "", "http://evil.example"}) {
    EXPECT_EQ(Guarded({{"host", "localhost:1"}, {"origin", origin}}), 403) << origin;
  }
  EXPECT_EQ(Guarded({{"host", "localhost"}, {"sec-fetch-site", "same-origin"}}), 200);
  EXPECT_EQ(Guarded({{"host", "localhost"}, {"sec-fetch-site", "none"}}), 200);
  EXPECT_EQ(Guarded({{"host", "localhost"}, {"sec-fetch-site", "cross-site"}}), 403);
}

TEST(Guard, OnlyJsonIsPosted) {
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/json ;x"}) {
    EXPECT_EQ(Guarded({{"host", "localhost"}, {"content-type", type}}, "POST"), 200) << type;
  }
  for (const char* type : {"", "text/plain", "application/jsonx", "text/plain; application/json"}) {
    EXPECT_EQ(Guarded({{"host", "localhost"}, {"content-type", type}}, "POST"), 415) << type;
  }
}

TEST(Guard, APackedBodyIsRefused) {
  const auto posted = [](const char* encoding) {
    return Guarded({{"host", "localhost"}, {"content-type", "application/json"}, {"content-encoding", encoding}},
                   "POST");
  };
  for (const char* encoding : {"gzip", "GZip", "deflate", "identity, gzip"}) EXPECT_EQ(posted(encoding), 415);
  EXPECT_EQ(posted("identity"), 200);
}

TEST(Guard, AProbeNeedsNoHost) {
  http::Request probe;
  probe.method = "GET";
  probe.path = "/health";
  EXPECT_FALSE(RefusedAtOnce(probe, {}));
  probe.headers = {{"origin", "http://evil.example"}};
  EXPECT_EQ(RefusedAtOnce(probe, {}).value().status, 403);
  probe.headers = {{"host", "evil.example"}};
  EXPECT_EQ(RefusedAtOnce(probe, {}).value().status, 421);
}

}  // namespace
}  // namespace distlock::web
