// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "rpc/access_check.h"
#include "rpc/guarded.h"

namespace distlock::rpc {
namespace {

template <typename Response>
grpc::Status First(std::unique_ptr<grpc::ClientReader<Response>> stream, grpc::ClientContext& context) {
  Response response;
  if (!stream->Read(&response)) return stream->Finish();
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  stream->Finish();
  return grpc::Status::OK;
}

// The answer to one command of a new session: OK, or PERMISSION_DENIED as a refusal.
grpc::Status Command(TestBroker& broker, const std::function<void(v1::SessionCommand&)>& fill) {
  TestSession session(broker.locks());
  fill(session.Open().Add(2));
  session.Heartbeat(1).Send();
  bool denied = false;
  for (bool acked = false, answered = false; !(acked && answered);) {
    const v1::SessionEvent event = session.Next();
    if (event.event_case() == v1::SessionEvent::EVENT_NOT_SET) return session.Finish();
    acked = acked || event.has_heartbeat_ack();
    answered = answered || event.id() == 2;
    denied = denied || (event.has_refused() && event.refused().reason() == v1::REFUSAL_REASON_PERMISSION_DENIED);
  }
  return denied ? grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "refused command") : grpc::Status::OK;
}

using Driver = std::function<grpc::Status(TestBroker&)>;

using Drivers = std::map<std::string, Driver>;

void DriveLockService(Drivers& drivers) {
  using L = v1::LockService::Stub;
  drivers["LockService.Hold"] = [](TestBroker& broker) {
    v1::HoldRequest request;
    *request.mutable_lock() = Spec("k");
    grpc::ClientContext context;
    return First(broker.locks().Hold(&context, request), context);
  };
  drivers["LockService.Acquire"] = [](TestBroker& broker) {
    v1::AcquireRequest request;
    *request.add_locks() = Spec("free");
    *request.add_locks() = Spec("k");
    return Unary(broker.locks(), &L::Acquire, request);
  };
  drivers["LockService.Renew"] = [](TestBroker& broker) {
    v1::RenewRequest request;
    request.set_lease_id(LeaseOf("k"));
    return Unary(broker.locks(), &L::Renew, request);
  };
  drivers["LockService.Release"] = [](TestBroker& broker) {
    v1::ReleaseRequest request;
    request.set_lease_id(LeaseOf("k"));
    return Unary(broker.locks(), &L::Release, request);
  };
  drivers["LockService.Downgrade"] = [](TestBroker& broker) {
    v1::DowngradeRequest request;
    request.set_lease_id(LeaseOf("k"));
    return Unary(broker.locks(), &L::Downgrade, request);
  };
  drivers["LockService.GetLock"] = [](TestBroker& broker) {
    v1::GetLockRequest request;
    request.set_key("k");
    return Unary(broker.locks(), &L::GetLock, request);
  };
  drivers["LockService.CheckToken"] = [](TestBroker& broker) {
    v1::CheckTokenRequest request;
    request.set_key("k");
    request.set_fencing_token(1);
    return Unary(broker.locks(), &L::CheckToken, request);
  };
  drivers["LockService.ListLocks"] = [](TestBroker& broker) {
    v1::ListLocksRequest request;
    request.set_key_prefix("k");
    return Unary(broker.locks(), &L::ListLocks, request);
  };
  drivers["LockService.WatchLock"] = [](TestBroker& broker) {
    v1::WatchLockRequest request;
    request.set_key("k");
    grpc::ClientContext context;
    return First(broker.locks().WatchLock(&context, request), context);
  };
  drivers["LockService.WatchLocks"] = [](TestBroker& broker) {
    v1::WatchLocksRequest request;
    request.set_key_prefix("k");
    grpc::ClientContext context;
    return First(broker.locks().WatchLocks(&context, request), context);
  };
}

void DriveAdminService(Drivers& drivers) {
  using A = v1::AdminService::Stub;
  drivers["AdminService.GetStatus"] = [](TestBroker& broker) {
    return Unary(broker.admin(), &A::GetStatus, v1::GetStatusRequest());
  };
  drivers["AdminService.ListSessions"] = [](TestBroker& broker) {
    return Unary(broker.admin(), &A::ListSessions, v1::ListSessionsRequest());
  };
  drivers["AdminService.ForceRelease"] = [](TestBroker& broker) {
    v1::ForceReleaseRequest request;
    request.set_key("k");
    return Unary(broker.admin(), &A::ForceRelease, request);
  };
  drivers["AdminService.Drain"] = [](TestBroker& broker) {
    return Unary(broker.admin(), &A::Drain, v1::DrainRequest());
  };
  drivers["AdminService.Reload"] = [](TestBroker& broker) {
    return Unary(broker.admin(), &A::Reload, v1::ReloadRequest());
  };
  drivers["AdminService.UpgradeStore"] = [](TestBroker& broker) {
    v1::UpgradeStoreRequest request;
    request.set_to(2);
    return Unary(broker.admin(), &A::UpgradeStore, request);
  };
  drivers["AdminService.InitQuorum"] = [](TestBroker& broker) {
    return Unary(broker.admin(), &A::InitQuorum, v1::InitQuorumRequest());
  };
  drivers["AdminService.CheckAccess"] = [](TestBroker& broker) {
    v1::CheckAccessRequest request;
    request.set_principal("uid:8");
    return Unary(broker.admin(), &A::CheckAccess, request);
  };
}

void DriveSessions(Drivers& drivers) {
  drivers["LockService.Session"] = [](TestBroker& broker) {
    TestSession session(broker.locks());
    session.Open().Goodbye().Send();
    return session.Finish();
  };
  drivers["SessionCommand.acquire"] = [](TestBroker& broker) {
    return Command(broker, [](v1::SessionCommand& command) { *command.mutable_acquire()->add_locks() = Spec("k"); });
  };
  drivers["SessionCommand.adopt"] = [](TestBroker& broker) {
    return Command(broker, [](v1::SessionCommand& command) {
      command.mutable_adopt()->set_lease_id(LeaseOf("k"));
      command.mutable_adopt()->set_request_id("0123456789abcdef");
      *command.mutable_adopt()->mutable_lock() = Spec("k");
    });
  };
  drivers["SessionCommand.release"] = [](TestBroker& broker) {
    return Command(broker, [](auto& command) { command.mutable_release()->set_lease_id(LeaseOf("k")); });
  };
  drivers["SessionCommand.downgrade"] = [](TestBroker& broker) {
    return Command(broker, [](auto& command) { command.mutable_downgrade()->set_lease_id(LeaseOf("k")); });
  };
  // The driver of a session sends all of these.
  for (const char* command : {"open", "authenticate", "cancel", "heartbeat", "goodbye"}) {
    drivers[std::string("SessionCommand.") + command] = [](TestBroker& broker) {
      TestSession session(broker.locks());
      session.Open().Heartbeat(1).Cancel(5).Add(2).mutable_authenticate()->set_authorization("Bearer x");
      session.Goodbye().Send();
      return session.Finish();
    };
  }
}

Drivers AllDrivers() {
  Drivers drivers;
  DriveLockService(drivers);
  DriveAdminService(drivers);
  DriveSessions(drivers);
  return drivers;
}

// A rule for uid 7 that allows all of `verbs`, and nothing else.
std::string Allowing(access::VerbSet verbs) {
  std::string locks;
  std::string broker;
  for (int i = 0; i < access::kVerbs; ++i) {
    const auto verb = static_cast<access::Verb>(i);
    if ((verbs & access::Bit(verb)) == 0) continue;
    (access::IsLockVerb(verb) ? locks : broker) += std::string(access::NameOf(verb)) + ", ";
  }
  std::string rules = "rules:\n- {name: other, who: ['uid:9'], locks: ['*'], may: [look]}\n";
  // The second lock of a request is the one that matters.
  const bool takes = (verbs & access::kAllAcquire) != 0;
  if (!takes) rules += "- {name: free, who: ['uid:7'], locks: ['default:free'], may: [acquire]}\n";
  if (!locks.empty()) rules += "- {name: lock, who: ['uid:7'], locks: ['*'], may: [" + locks + "]}\n";
  if (!broker.empty()) rules += "- {name: broker, who: ['uid:7'], broker: [" + broker + "]}\n";
  return rules;
}

constexpr access::VerbSet kEverything = (1U << access::kVerbs) - 1;

TEST(AccessRows, EveryCallAndCommandHasOne) {
  std::set<std::string> rows;
  for (const AccessRow& row : kAccessRows) EXPECT_TRUE(rows.emplace(row.call).second) << row.call;
  std::set<std::string> calls;
  const auto* file = v1::HoldRequest::descriptor()->file();
  for (const auto* of : {file, v1::DrainRequest::descriptor()->file()}) {
    for (int i = 0; i < of->service_count(); ++i) {
      for (int j = 0; j < of->service(i)->method_count(); ++j) {
        calls.insert(of->service(i)->name() + "." + of->service(i)->method(j)->name());
      }
    }
  }
  const auto* commands = v1::SessionCommand::descriptor()->oneof_decl(0);
  for (int i = 0; i < commands->field_count(); ++i) calls.insert("SessionCommand." + commands->field(i)->name());
  EXPECT_EQ(rows, calls);
}

class AccessRowTest : public testing::TestWithParam<AccessRow> {};

TEST_P(AccessRowTest, NeedsJustThis) {
  const AccessRow& row = GetParam();
  const Driver drive = AllDrivers().at(std::string(row.call));
  const auto denied = [&](access::VerbSet verbs) {
    const Guarded guarded(Allowing(verbs));
    return drive(*guarded.broker).error_code() == grpc::StatusCode::PERMISSION_DENIED;
  };
  if (row.need == Need::kAlways) {
    EXPECT_FALSE(denied(0));
    return;
  }
  EXPECT_TRUE(denied(0));
  EXPECT_TRUE(denied(kEverything & ~row.verbs));
  EXPECT_FALSE(denied(row.verbs));
  for (int i = 0; i < access::kVerbs && row.need == Need::kAllOf; ++i) {
    const access::VerbSet one = access::Bit(static_cast<access::Verb>(i));
    if ((one & row.verbs) == 0) continue;
    EXPECT_TRUE(denied(kEverything & ~one)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AccessRowTest, testing::ValuesIn(kAccessRows), [](const auto& of) {
  std::string name(of.param.call);
  name.erase(name.find('.'), 1);
  return name;
});

TEST(Access, WhomOnlyTheKernelHasNamedIsToldThatATokenWasNotShown) {
  const std::string rules = "rules:\n- {name: app, who: ['token:app'], locks: ['*'], may: [acquire]}\n";
  Guarded guarded(rules);
  const auto denied = [&] {
    v1::AcquireRequest request;
    *request.add_locks() = Spec("k");
    return Unary(guarded.broker->locks(), &v1::LockService::Stub::Acquire, request).error_message();
  };
  const std::string why = "uid:7 may not take default:k exclusive: no rule allows it";
  EXPECT_EQ(denied(), why);
  const auto use = [&](const std::string& tokens) {
    auto parsed = access::Tokens::Parse(tokens, "t");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    guarded.authorizer.Replace(nullptr, std::make_shared<const access::Tokens>(*std::move(parsed)), nullptr);
  };
  use("# none\n");
  EXPECT_EQ(denied(), why);
  use("app:" + std::string(64, '0') + "\n");
  EXPECT_EQ(denied(), why + "; no token was shown: DISTLOCK_TOKEN_FILE names one");
}

}  // namespace
}  // namespace distlock::rpc
