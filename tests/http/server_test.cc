// SPDX-License-Identifier: Apache-2.0
//
// The HTTP server over plain sockets: answers that come later, streams, clients that leave, and the end.
#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "server_fixture.h"

namespace distlock::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(ServerTest, AnAnswerMayComeLaterAndTheConnectionIsUsedAgain) {
  Begin();
  const int fd = Ask("POST /a%2Fb?c=%20 HTTP/1.1\r\nX-Thing: 1\r\nx-thing: 2", "{}");
  for (int i = 0; i < 2; ++i) {
    const auto exchange = NextExchange();
    EXPECT_EQ(exchange->request().method, "POST");
    EXPECT_EQ(exchange->request().path, "/a%2Fb");
    EXPECT_EQ(exchange->request().query, "c=%20");
    EXPECT_EQ(exchange->request().body, "{}");
    EXPECT_EQ(exchange->request().All("x-thing").size(), 2U);
    EXPECT_THAT(exchange->request().peer.address, StartsWith("ipv4:127.0.0.1:"));
    EXPECT_TRUE(exchange->request().peer.is_loopback);
    EXPECT_FALSE(exchange->request().peer.user);
    EXPECT_FALSE(exchange->IsAnswered());
    EXPECT_TRUE(exchange->Answer({.status = 409, .body = "held", .headers = {{"Retry-After", "3"}}}));
    EXPECT_FALSE(exchange->Answer({.body = "never"}));
    EXPECT_THAT(Receive(fd, "held"), AllOf(StartsWith("HTTP/1.1 409 Conflict\r\n"), HasSubstr("Retry-After: 3\r\n")));
    if (i == 0) {
      Send(fd, "POST /a%2Fb?c=%20 HTTP/1.1\r\nHost: h\r\nX-Thing: 1\r\nX-Thing: 2\r\nContent-Length: 2\r\n\r\n{}");
    }
  }
  close(fd);
}

TEST_F(ServerTest, AStreamGoesOnUntilItsEnd) {
  Begin();
  const int fd = Ask();
  const auto exchange = NextExchange();
  std::promise<void> drained;
  bool told = false;
  exchange->BeginStream({.type = "text/event-stream"}, ":\n\n", [&] {
    if (!std::exchange(told, true)) drained.set_value();
  });
  EXPECT_THAT(Receive(fd, "\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  exchange->Write("data: 1\n\n");
  EXPECT_THAT(Receive(fd, "\r\ndata: 1\n\n\r\n"), HasSubstr("data: 1"));
  drained.get_future().wait();
  exchange->Write(std::string(100'000, 'x'));
  exchange->End();
  EXPECT_THAT(Receive(fd, "0\r\n\r\n"), EndsWith("x\r\n0\r\n\r\n"));
  close(fd);
}

TEST_F(ServerTest, WhoLeavesIsNoticedWhileTheAnswerIsAwaited) {
  Begin();
  for (const bool streams : {false, true}) {
    for (const bool half : {false, true}) {
      const int fd = Ask();
      const auto exchange = NextExchange();
      if (streams) exchange->BeginStream({}, "", nullptr);
      std::promise<void> gone;
      exchange->OnGone([&] { gone.set_value(); });
      half ? shutdown(fd, SHUT_WR) : close(fd);
      gone.get_future().wait();
      EXPECT_TRUE(exchange->IsAnswered());
      EXPECT_FALSE(exchange->Answer({}));
      exchange->Write("late");
      if (half) {
        Receive(fd);
        close(fd);
      }
    }
  }
}

TEST_F(ServerTest, WhoIsAnsweredIsNotSaidToLeave) {
  Begin();
  const int fd = Ask();
  const auto exchange = NextExchange();
  bool left = false;
  exchange->OnGone([&] { left = true; });
  exchange->Answer({.body = "done"});
  Receive(fd, "done");
  close(fd);
  server_.reset();
  EXPECT_FALSE(left);
}

TEST_F(ServerTest, TheEndAnswersWhoWaits) {
  Begin();
  const int waits = Ask();
  const auto exchange = NextExchange();
  std::promise<void> gone;
  exchange->OnGone([&] { gone.set_value(); });
  const int streams = Ask();
  const auto stream = NextExchange();
  stream->BeginStream({}, "", nullptr);
  const int quiet = Dial(server_->address());
  server_.reset();
  gone.get_future().wait();
  EXPECT_THAT(Receive(waits), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("not known")));
  Receive(streams);
  Receive(quiet);
  exchange->Answer({});
  stream->Write("late");
  for (const int fd : {waits, streams, quiet}) close(fd);
}

TEST_F(ServerTest, BodiesAndHeadsHaveBounds) {
  Begin();
  const int announced = Ask("POST / HTTP/1.1", std::string(101, 'b'));
  EXPECT_THAT(Receive(announced), StartsWith("HTTP/1.1 413 "));
  close(announced);
  const int chunked = Dial(server_->address());
  Send(chunked, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'b') +
                    "\r\n0\r\n\r\n");
  EXPECT_THAT(Receive(chunked), StartsWith("HTTP/1.1 413 "));
  close(chunked);
  for (const std::string twice :
       {"Content-Length: 2\r\nContent-Length: 2", "Content-Length: 5\r\nTransfer-Encoding: chunked"}) {
    const int fd = Dial(server_->address());
    Send(fd, "POST / HTTP/1.1\r\nHost: h\r\n" + twice + "\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string answers = Receive(fd);
    EXPECT_THAT(answers, StartsWith("HTTP/1.1 400 ")) << twice;
    EXPECT_EQ(answers.rfind("HTTP/1.1"), 0U) << answers;
    close(fd);
  }
  const int large = Ask("GET / HTTP/1.1\r\nX: " + std::string(40'000, 'h'));
  EXPECT_THAT(Receive(large), StartsWith("HTTP/1.1 431 "));
  close(large);
  const int fits = Ask("GET / HTTP/1.1\r\nX: " + std::string(9'000, 'h'));
  NextExchange()->Answer({.headers = {{"Connection", "close"}}});
  EXPECT_THAT(Receive(fits), StartsWith("HTTP/1.1 200 "));
  close(fits);
}

TEST_F(ServerTest, ItsOwnErrorsLookAsTheOwnerSays) {
  Begin(
      {.address = "127.0.0.1:0", .max_connections = 1, .spare_connections = 1, .error = [](int status, const auto& m) {
         return Reply{.status = status, .type = "x/y", .body = "<" + m + ">"};
       }});
  const int large = Ask("POST / HTTP/1.1", std::string(101, 'b'));
  EXPECT_THAT(Receive(large), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("Content-Type: x/y\r\n"), EndsWith(">")));
  close(large);
  const int first = Ask();
  const auto exchange = NextExchange();
  const int second = Ask();
  EXPECT_THAT(Receive(second), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n"),
                                     EndsWith("<all 1 connections are in use>")));
  close(second);
  server_.reset();
  EXPECT_THAT(Receive(first), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("<the broker stops;")));
  close(first);
}

constexpr const char* kOther = "127.0.0.2";
constexpr const char* kThird = "127.0.0.3";

TEST_F(ServerTest, OneCallerHasItsShareOfWhatIsServed) {
  Begin({.address = "127.0.0.1:0", .max_connections = 4, .spare_connections = 4});
  const std::string get = "GET /x HTTP/1.1";
  std::vector<int> fds;
  std::vector<std::shared_ptr<Exchange>> held;
  for (int i = 0; i < 2; ++i) {
    fds.push_back(Ask(get, "", kOther));
    held.push_back(NextExchange());
  }
  for (int i = 0; i < 3; ++i) {
    fds.push_back(Ask(get, "", kOther));
    EXPECT_THAT(Receive(fds.back()), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n"),
                                           EndsWith("all 2 connections that one caller may have are in use\n")));
  }
  fds.push_back(Ask());
  NextExchange()->Answer({.body = "served", .headers = {}});
  EXPECT_THAT(Receive(fds.back(), "served"), StartsWith("HTTP/1.1 200 "));
  held.front()->Answer({.body = "done", .headers = {}});
  Receive(fds.front(), "done");
  fds.push_back(Ask(get, "", kOther));
  NextExchange()->Answer({.body = "again", .headers = {}});
  EXPECT_THAT(Receive(fds.back(), "again"), StartsWith("HTTP/1.1 200 "));
  for (const int fd : fds) close(fd);
}

TEST_F(ServerTest, OneCallerThatOpensTooManyLosesItsOldest) {
  Begin({.address = "127.0.0.1:0", .max_connections = 4});
  const int of_another = Dial(server_->address());
  const int oldest = Dial(server_->address(), kOther);
  const int used = Ask("GET /x HTTP/1.1", "", kOther);
  NextExchange()->Answer({.body = "once", .headers = {}});
  Receive(used, "once");
  const int newest = Ask("GET /x HTTP/1.1", "", kOther);
  ASSERT_TRUE(IsCut(oldest));
  const auto held = NextExchange();
  const int last = Ask("GET /x HTTP/1.1", "", kOther);
  ASSERT_TRUE(IsCut(used)) << "it waits for its next request";
  const auto held_too = NextExchange();
  const int refused = Dial(server_->address(), kOther);
  ASSERT_TRUE(IsCut(refused)) << "both of its others are served";
  Send(of_another, "GET /y HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto others = NextExchange();
  EXPECT_EQ(others->request().path, "/y") << "nobody else loses one";
  for (const int fd : {of_another, oldest, used, newest, last, refused}) close(fd);
}

TEST_F(ServerTest, WhenAllAreOpenWhoeverHasWaitedTheLongestMakesRoom) {
  Begin({.address = "127.0.0.1:0", .max_connections = 4});
  std::vector<int> quiet;
  for (const char* source : {kOther, kOther, kThird, kThird}) quiet.push_back(Dial(server_->address(), source));
  for (const int oldest : {quiet[0], quiet[1]}) {
    const int fd = Ask();
    ASSERT_TRUE(IsCut(oldest));
    quiet.push_back(fd);
    NextExchange()->Answer({.body = "served", .headers = {}});
    EXPECT_THAT(Receive(fd, "served"), StartsWith("HTTP/1.1 200 "));
  }
  for (const int fd : quiet) close(fd);
}

TEST_F(ServerTest, WhatACutConnectionAsksIsNotDone) {
  std::promise<void> busy;
  std::promise<void> go_on;
  std::vector<std::string> asked;
  auto started = Server::Start({.address = "127.0.0.1:0", .max_connections = 4}, [&](const auto& exchange) {
    asked.push_back(exchange->request().path);
    if (asked.size() == 1) {
      busy.set_value();
      go_on.get_future().wait();
    }
    exchange->Answer({.headers = {{"Connection", "close"}}});
  });
  ASSERT_TRUE(started.ok()) << started.status();
  server_ = *std::move(started);
  const int cut = Dial(server_->address(), kOther);
  const int kept = Dial(server_->address(), kOther);
  const int blocks = Ask("GET /blocks HTTP/1.1");
  busy.get_future().wait();
  // The server's thread sees both together: the request, and the connection for which its own makes room.
  Send(cut, "GET /cut HTTP/1.1\r\nHost: h\r\n\r\n");
  const int newest = Ask("GET /newest HTTP/1.1", "", kOther);
  go_on.set_value();
  EXPECT_TRUE(IsCut(cut));
  EXPECT_THAT(Receive(newest), StartsWith("HTTP/1.1 200 "));
  for (const int fd : {cut, kept, blocks, newest}) close(fd);
  server_.reset();
  EXPECT_THAT(asked, ::testing::ElementsAre("/blocks", "/newest"));
}

TEST_F(ServerTest, AUnixSocketNamesItsUser) {
  const auto folder = std::filesystem::temp_directory_path() / ("http-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "api.sock";
  Begin({.address = "unix://" + path + "?mode=0606"});
  struct stat found{};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0606U);
  const int fd = Ask();
  const auto exchange = NextExchange();
  EXPECT_EQ(exchange->request().peer.address, "unix:");
  ASSERT_TRUE(exchange->request().peer.user);
  EXPECT_EQ(exchange->request().peer.user->uid, getuid());
  EXPECT_EQ(exchange->request().peer.counts_as, "unix:uid=" + std::to_string(getuid()));
  exchange->Answer({});
  Receive(fd, "\r\n\r\n");
  close(fd);
  EXPECT_THAT(std::string(Server::Start({.address = "unix://" + path}, [](const auto&) {}).status().message()),
              HasSubstr("another process is listening there"));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace distlock::http
