// SPDX-License-Identifier: Apache-2.0
//
// Calls with one answer, and watches: which broker they go to, and what is told when none answers.
#include <absl/strings/str_cat.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "distlock/admin.h"
#include "distlock/client.h"
#include "distlock/detached.h"
#include "distlock/inspect.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using testing::FakeBroker;
using testing::StatusWith;

constexpr char kNobodyHere[] = "unix:///tmp/distlock-nobody-listens-here.sock";
constexpr auto kShort = std::chrono::milliseconds(50);

// No stream, and no attempt that fails is repeated within the test.
ClientOptions CallsOnly(const std::string& addresses) {
  return {.address = addresses, .reconnect_initial = std::chrono::milliseconds(5), .connect_at_once = false};
}

// A socket that takes connections and never says a word.
class SilentSocket {
 public:
  SilentSocket() : path_(folder_.path() + "/silent.sock"), fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX};
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
  }
  ~SilentSocket() { ::close(fd_); }
  std::string address() const { return "unix://" + path_; }

 private:
  const testing::Folder folder_;
  const std::string path_;
  const int fd_;
};

// Grants each detached lock, and loses the first answers.
class Granter final : public v1::LockService::Service {
 public:
  explicit Granter(const std::string& address, int lost = 0) : lost_(lost) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Granter() override { server_->Shutdown(std::chrono::system_clock::now()); }

  void WaitForOne() { one_.get_future().wait(); }

  std::vector<v1::AcquireRequest> asked;  // to be read when the calls have ended

 private:
  grpc::Status Acquire(grpc::ServerContext*, const v1::AcquireRequest* request,
                       v1::AcquireResponse* response) override {
    asked.push_back(*request);
    if (asked.size() == 1) one_.set_value();
    if (static_cast<int>(asked.size()) <= lost_) return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
    response->add_grants()->set_fencing_token(1);
    return grpc::Status::OK;
  }

  const int lost_;
  std::promise<void> one_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(Calls, OpenNoStreamBeforeALockIsAskedFor) {
  FakeBroker broker;
  Client client(CallsOnly(broker.address()));
  EXPECT_TRUE(Inspector(client).Look("k").ok());
  EXPECT_EQ(broker.Streams(), 0u);
  EXPECT_FALSE(client.connected());
  EXPECT_TRUE(client.MakeMutex("k").Lock().ok());
  EXPECT_EQ(broker.Streams(), 1u);
}

TEST(Calls, PassOverABrokerThatCannotBeReachedOrIsSilent) {
  FakeBroker broker;
  const SilentSocket silent;
  for (const std::string& first : {std::string(kNobodyHere), silent.address()}) {
    Client client(CallsOnly(absl::StrCat(first, ",", broker.address())));
    EXPECT_TRUE(Inspector(client).Look("k").ok()) << first;
    EXPECT_TRUE(client.MakeElection("k").Look().ok()) << first;
  }
}

TEST(Calls, GoToAnotherBrokerWhenTheirsHasGone) {
  std::optional<FakeBroker> first(std::in_place);
  FakeBroker second;
  Client client(CallsOnly(absl::StrCat(first->address(), ",", second.address())));
  EXPECT_TRUE(Inspector(client).Look("k").ok());
  EXPECT_TRUE(second.Looks().empty());
  first.reset();
  // The first call may still be sent into the dead connection.
  while (!Inspector(client).Look("k").ok()) std::this_thread::yield();
  EXPECT_FALSE(second.Looks().empty());
}

TEST(Calls, SayWhyNoBrokerWasFound) {
  const SilentSocket silent;
  const std::pair<std::string, std::string> kCauses[] = {{kNobodyHere, "No such file"},
                                                         {silent.address(), "no answer"}};
  for (const auto& [address, cause] : kCauses) {
    ClientOptions options = CallsOnly(address);
    options.call_timeout = options.unreachable_timeout = kShort;
    Client client(options);
    const Refusal looked = Inspector(client).Look("k").refusal();
    EXPECT_EQ(looked.reason, RefusalReason::kUnreachable);
    EXPECT_NE(looked.cause.find(cause), std::string::npos) << looked.cause;
    EXPECT_EQ(looked.message.find(absl::StrCat("no broker at ", address, " answered within 50 ms: ")), 0u)
        << looked.message;
    // Not even a wait without end: nobody could answer it.
    EXPECT_EQ(DetachedLocks(client).Acquire("k").refusal().cause, looked.cause);
    EXPECT_EQ(client.MakeElection("k").Look().refusal().cause, looked.cause);
    EXPECT_EQ(client.MakeMutex("k").Lock().refusal().reason, RefusalReason::kUnreachable);
    EXPECT_FALSE(client.MakeMutex("k").Lock().refusal().cause.empty());
  }
}

TEST(Calls, AWaitForADetachedLockBeginsWhenABrokerIsFound) {
  const testing::Folder folder;
  const std::string address = "unix://" + folder.path() + "/broker.sock";
  Client client(CallsOnly(address));
  auto taken = std::async(std::launch::async, [&] { return DetachedLocks(client).Acquire("k", {.max_wait = kShort}); });
  EXPECT_EQ(taken.wait_for(2 * kShort), std::future_status::timeout);
  Granter broker(address);
  ASSERT_TRUE(taken.get().ok());
  ASSERT_EQ(broker.asked.size(), 1u);
  EXPECT_GT(broker.asked[0].locks(0).max_wait().nanos(), 0) << "the wait is not over";
}

TEST(Calls, ADetachedLockIsAskedForAgainUnderTheSameIdAndItsOutcomeIsNotGuessed) {
  const testing::Folder folder;
  const std::string address = "unix://" + folder.path() + "/broker.sock";
  ClientOptions options = CallsOnly(address);
  options.unreachable_timeout = kShort;
  Client client(options);
  std::optional<Granter> broker(std::in_place, address, 1);
  EXPECT_TRUE(DetachedLocks(client).Acquire("k").ok());
  ASSERT_EQ(broker->asked.size(), 2u);
  EXPECT_EQ(broker->asked[0].request_id(), broker->asked[1].request_id());

  broker.emplace(address, /*lost=*/1'000'000);
  auto unknown = std::async(std::launch::async, [&] { return DetachedLocks(client).Acquire("k"); });
  broker->WaitForOne();
  broker.reset();
  const Refusal why = unknown.get().refusal();
  EXPECT_EQ(why.reason, RefusalReason::kUnreachable);
  EXPECT_NE(why.message.find("whether the lock was granted is not known"), std::string::npos) << why.message;
}

TEST(Calls, EndWhenTheyAreCancelledOrTheClientIsDestroyed) {
  std::optional<Client> client(CallsOnly(kNobodyHere));
  DetachedLocks locks(*client);
  Inspector inspector(*client);
  std::stop_source stop;
  auto cancelled = std::async(std::launch::async, [&] { return locks.Acquire("k", {}, {}, "", stop.get_token()); });
  stop.request_stop();
  EXPECT_EQ(cancelled.get().refusal().reason, RefusalReason::kCancelled);
  auto closed = std::async(std::launch::async, [&] { return inspector.Look("k"); });
  client.reset();
  EXPECT_EQ(closed.get().refusal().reason, RefusalReason::kClientClosed);
}

TEST(Calls, AreNotSentWithATextThatIsNotUtf8) {
  FakeBroker broker;
  Client client(CallsOnly(broker.address()));
  const std::string bad = "a\xff";
  const Refusal looked = Inspector(client).Look(bad).refusal();
  EXPECT_EQ(looked.reason, RefusalReason::kInvalidArgument);
  ASSERT_EQ(looked.field_problems.size(), 1u);
  EXPECT_EQ(looked.field_problems[0].field, "key");
  EXPECT_EQ(looked.message, "key is not UTF-8; encode binary names first");
  EXPECT_EQ(Inspector(client).Watch(bad, [](const LockInfo&) {}, {}).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(Inspector(client).WatchAll(bad, [](const LockInfo&) {}, {}).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(DetachedLocks(client).Renew(bad).refusal().field_problems.at(0).field, "lease_id");
  EXPECT_TRUE(broker.Looks().empty());
}

// The fake has no AdminService, as a broker that is too old for a call.
TEST(Calls, SayThatTheBrokerDoesNotKnowThem) {
  FakeBroker broker;
  Client client(CallsOnly(broker.address()));
  EXPECT_EQ(Admin(client).Status().refusal().reason, RefusalReason::kNotSupported);
}

TEST(Watch, ReturnsWhenItIsInterruptedIfThatIsWanted) {
  std::optional<FakeBroker> broker(std::in_place);
  Client client(CallsOnly(broker->address()));
  std::promise<void> told;
  auto ended = std::async(std::launch::async, [&] {
    return Inspector(client).Watch("k", [&](const LockInfo&) { told.set_value(); }, {}, "", WhenInterrupted::kReturn);
  });
  told.get_future().wait();
  broker.reset();
  const Refusal why = ended.get();
  EXPECT_EQ(why.reason, RefusalReason::kUnreachable);
  EXPECT_TRUE(why.cause.empty()) << "a broker had been found";
  EXPECT_NE(why.message.find("the broker at unix:"), std::string::npos) << why.message;
}

TEST(Watch, ReturnsWithTheRefusalOfTheBroker) {
  FakeBroker broker(
      FakeBroker::Behaviour{.look_status = StatusWith(grpc::StatusCode::UNAVAILABLE, "going down", "DRAINING")});
  Client client(CallsOnly(broker.address()));
  const Refusal why = Inspector(client).Watch("k", [](const LockInfo&) {}, {}, "", WhenInterrupted::kReturn);
  EXPECT_EQ(why.reason, RefusalReason::kDraining);
  EXPECT_EQ(why.message, "going down");
}

}  // namespace
}  // namespace distlock
