// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/command_rest.h"

#include <gtest/gtest.h>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

grpc::Slice SliceOf(const std::string& bytes) { return grpc::Slice(bytes); }

TEST(CommandRestTest, GivesTheCommandsInTheirOrder) {
  v1::SessionRequest request;
  for (int64_t id = 1; id <= 1000; ++id) {
    v1::SessionCommand& command = *request.add_commands();
    command.set_id(id);
    command.mutable_acquire()->add_locks()->set_key("k");
  }
  std::string bytes = request.SerializeAsString();
  bytes +=
      "\x7a\x03"
      "abc";  // a field that nobody knows
  CommandRest rest;
  rest.Set(SliceOf(bytes));
  for (const v1::SessionCommand& command : request.commands()) {
    ASSERT_FALSE(rest.empty());
    v1::SessionCommand next;
    std::string problem;
    ASSERT_TRUE(rest.Next(&next, &problem)) << problem;
    ASSERT_EQ(next.SerializeAsString(), command.SerializeAsString());
    if (command.id() == 500) rest.Compact();
  }
  v1::SessionCommand none;
  std::string problem;
  EXPECT_FALSE(rest.Next(&none, &problem));
  EXPECT_EQ(problem, "");
  EXPECT_TRUE(rest.empty());
}

TEST(CommandRestTest, SaysWhatIsWrongAndTakesNothingMore) {
  for (const std::string& bytes : {std::string("\x0a"),
                                   std::string("\x0a\x05"
                                               "abc"),
                                   std::string("\x0a\x01\xff"), std::string("\x07"), std::string(1, '\0'),
                                   std::string("\x0a\xff\xff\xff\xff\x0f"), std::string("\x0a\x03\x12\x01\xff"),
                                   std::string("\x7a\x7f"
                                               "a")}) {
    CommandRest rest;
    rest.Set(SliceOf(bytes + std::string("\x0a\x02\x08\x01")));
    v1::SessionCommand command;
    std::string problem;
    bool taken = rest.Next(&command, &problem);
    while (taken) taken = rest.Next(&command, &problem);
    EXPECT_NE(problem, "");
    EXPECT_TRUE(rest.empty());
  }
}

// More commands than may wait at once: all are carried out, in their order, although they are one message.
TEST(CommandRestTest, OfASessionIsCarriedOutAsRoomComes) {
  TestOptions options;
  options.server.limits.max_unhandled_per_session = 3;
  TestBroker broker(options);
  TestSession session(broker.locks());
  session.Open();
  constexpr uint64_t kMany = 500;
  for (uint64_t id = 2; id < 2 + kMany; ++id) session.Acquire(id, "k" + std::to_string(id % 7), /*one_try=*/true);
  session.Heartbeat(1).Release(1000, 2);
  ASSERT_TRUE(session.Send());
  uint64_t answered = 0;
  bool released = false;
  while (answered < kMany || !released) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET) << answered;
    answered += event.has_granted() || event.has_refused() ? 1 : 0;
    released = released || event.id() == 1000;
  }
  session.Goodbye().Send();
  EXPECT_TRUE(session.Finish().ok());
}

}  // namespace
}  // namespace distlock::rpc
