// SPDX-License-Identifier: Apache-2.0
//
// Clients behind proxies: connections that are kept, their announced end, and absolute targets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "server_fixture.h"

namespace distlock::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST_F(ServerTest, AnIdleConnectionIsKeptForLongerThanItsAnswersPromise) {
  using std::chrono::milliseconds;
  Begin({.address = "127.0.0.1:0",
         .request_time = milliseconds(500),
         .idle_time = milliseconds(3500),
         .send_seconds = 1});  // of answers, which is no time for a request
  const int fd = Ask();
  NextExchange()->Answer({.body = "first", .headers = {}});
  const auto answered = std::chrono::steady_clock::now();
  EXPECT_THAT(Receive(fd, "first"), HasSubstr("Keep-Alive: timeout=3\r\n"));
  EXPECT_TRUE(IsCut(fd));
  EXPECT_GT(std::chrono::steady_clock::now() - answered, milliseconds(3000));
  close(fd);
}

TEST_F(ServerTest, WhoTakesNothingOfItsAnswerIsCut) {
  Begin({.address = "127.0.0.1:0", .send_seconds = 1});
  const int fd = Ask();
  const auto exchange = NextExchange();
  std::promise<void> gone;
  exchange->OnGone([&] { gone.set_value(); });
  exchange->BeginStream({}, "", [&] { exchange->Write(std::string(64 * 1024, 'x')); });
  exchange->Write("x");
  gone.get_future().wait();
  close(fd);
}

TEST_F(ServerTest, AnEndThatIsAnnouncedClosesConnectionsWithTheirAnswers) {
  Begin();
  const int fd = Ask();
  const auto exchange = NextExchange();
  server_->AnnounceEnd();
  exchange->Answer({.body = "last", .headers = {}});
  EXPECT_THAT(Receive(fd), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("last")));
  close(fd);
}

TEST_F(ServerTest, OfAnAbsoluteTargetTheHostCountsAndThePathIsServed) {
  Begin();
  const std::vector<std::vector<std::string>> cases = {{"http://Locks.example:80/a%2Fb?c=1", "/a%2Fb", "c=1"},
                                                       {"HTTPS://Locks.example:80", "/", ""},
                                                       {"http://Locks.example:80?c", "/", "c"}};
  for (const auto& one : cases) {
    const int fd = Ask("GET " + one[0] + " HTTP/1.1");
    const auto exchange = NextExchange();
    EXPECT_EQ(exchange->request().path, one[1]) << one[0];
    EXPECT_EQ(exchange->request().query, one[2]) << one[0];
    EXPECT_THAT(exchange->request().All("host"), ::testing::ElementsAre("Locks.example:80")) << one[0];
    exchange->Answer({.body = "seen", .headers = {}});
    Receive(fd, "seen");
    close(fd);
  }
}

}  // namespace
}  // namespace distlock::http
