// SPDX-License-Identifier: Apache-2.0
//
// status, drain, force-release: the commands of operators.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "commands.h"
#include "distlock/v1/admin_service.grpc.pb.h"
#include "lock_flags.h"
#include "printable.h"

namespace distlock::cli {
namespace {

struct DrainArgs {
  std::optional<Millis> timeout;
  bool wait = false;
};

struct ForceArgs {
  LockFlags lock;
  std::string holder_id;
  std::string reason;
};

grpc::Status GetStatus(const Context& context, const std::shared_ptr<grpc::Channel>& channel,
                       v1::GetStatusResponse* response) {
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  return v1::AdminService::NewStub(channel)->GetStatus(&call, {}, response);
}

std::string WordOf(v1::StoreNodeState state) {
  if (state == v1::STORE_NODE_STATE_UP) return "up";
  return state == v1::STORE_NODE_STATE_HELD_OFF ? "held off" : "down";
}

// ", up, counted, clock 2ms ahead", or ", up, not counted for 12s: it may have forgotten ...".
std::string VoteOf(const v1::StoreNode& node) {
  if (node.state() == v1::STORE_NODE_STATE_DOWN) return ", down";
  const bool held_off = node.state() == v1::STORE_NODE_STATE_HELD_OFF;
  std::string text = absl::StrCat(", up, ", node.not_counted().empty() ? "counted" : "not counted");
  if (held_off && node.has_hold_off_left()) {
    absl::StrAppend(&text, " for ", FormatDuration(FromProto(node.hold_off_left())));
  }
  if (!node.not_counted().empty()) absl::StrAppend(&text, ": ", node.not_counted());
  if (!node.has_clock_skew()) return text;
  const auto skew = FromProto(node.clock_skew());
  const bool behind = skew < skew.zero();
  return absl::StrCat(text, ", clock ", FormatDuration(behind ? -skew : skew), behind ? " behind" : " ahead");
}

// "primary   10.0.0.7:6379, up, identity 1a2b3c4d, epoch 3", then a line for each replica. One of several independent
// servers is a "server", with what its votes are worth.
void AddNode(const v1::StoreNode& node, std::vector<std::string>& lines) {
  std::string line = absl::StrCat(node.independent() ? "server    " : "primary   ", node.address());
  if (node.independent()) {
    line += VoteOf(node);
  } else {
    absl::StrAppend(&line, ", ", WordOf(node.state()));
    if (node.state() == v1::STORE_NODE_STATE_HELD_OFF) {
      const std::string left = node.has_hold_off_left() ? FormatDuration(FromProto(node.hold_off_left())) : "a while";
      absl::StrAppend(&line, " (no new locks for ", left, ")");
    }
  }
  if (!node.problem().empty()) absl::StrAppend(&line, ": ", node.problem());
  if (!node.version().empty()) absl::StrAppend(&line, ", version ", node.version());
  if (!node.identity().empty()) absl::StrAppend(&line, ", identity ", node.identity());
  if (node.epoch() > 0) absl::StrAppend(&line, ", epoch ", node.epoch());
  if (!node.guard().empty() && !node.independent()) {
    absl::StrAppend(&line, ", hold-off after a failover: ", node.guard());
  }
  lines.push_back(std::move(line));
  for (const v1::StoreReplica& replica : node.replicas()) {
    lines.push_back(absl::StrCat("replica   ", replica.address(), replica.online() ? ", online" : ", not in step",
                                 ", lag ", FormatDuration(FromProto(replica.lag()))));
  }
}

std::vector<std::string> StatusAsText(const v1::GetStatusResponse& status) {
  const bool up = status.store_state() == v1::STORE_STATE_UP;
  std::vector<std::string> lines = {
      absl::StrCat("broker    ", status.broker_id(), ", version ", status.version(),
                   status.draining() ? ", DRAINING" : ""),
      absl::StrCat("started   ", FormatTime(status.start_time()), ", up ", FormatDuration(FromProto(status.uptime()))),
      absl::StrCat("listen    ", absl::StrJoin(status.listen_addresses(), " ")),
      absl::StrCat("store     ", status.store_url(), up ? ", up" : ", DOWN: ", up ? "" : status.store_problem()),
      absl::StrCat("sessions  ", status.sessions()),
      absl::StrCat("leases    ", status.leases()),
      absl::StrCat("waiters   ", status.waiters()),
      absl::StrCat("shards    ", status.shards()),
      absl::StrCat("validity  ", FormatDuration(FromProto(status.validity())))};
  if (status.wait_replicas() > 0) {
    lines.push_back(absl::StrCat("confirm   ", status.wait_replicas(), " of the replicas must have each grant"));
  }
  for (const v1::StoreNode& node : status.store_nodes()) AddNode(node, lines);
  return lines;
}

Json NodeAsJson(const v1::StoreNode& node) {
  std::vector<Json> replicas;
  for (const v1::StoreReplica& replica : node.replicas()) {
    replicas.push_back(Json()
                           .Text("address", replica.address())
                           .Flag("online", replica.online())
                           .Number("lag_ms", FromProto(replica.lag()).count()));
  }
  Json json = Json()
                  .Text("address", node.address())
                  .Text("state", node.state() == v1::STORE_NODE_STATE_HELD_OFF ? "held_off" : WordOf(node.state()))
                  .Text("problem", node.problem())
                  .Text("role", node.role())
                  .Text("version", node.version())
                  .Text("identity", node.identity())
                  .Number("epoch", node.epoch())
                  .Text("guard", node.guard());
  if (node.has_hold_off_left()) {
    json.Number("hold_off_left_ms", FromProto(node.hold_off_left()).count());
  } else {
    json.Null("hold_off_left_ms");
  }
  json.List("replicas", replicas).Number("primary_changes", node.primary_changes());
  if (!node.independent()) return json;
  json.Flag("counted", node.not_counted().empty()).Text("not_counted", node.not_counted());
  if (!node.has_clock_skew()) return json.Null("clock_skew_us");
  const auto skew = std::chrono::duration_cast<std::chrono::microseconds>(wire::FromProto(node.clock_skew()));
  return json.Number("clock_skew_us", skew.count());
}

Json StatusAsJson(const v1::GetStatusResponse& status) {
  std::vector<Json> nodes;
  for (const v1::StoreNode& node : status.store_nodes()) nodes.push_back(NodeAsJson(node));
  return Json()
      .Text("version", status.version())
      .Text("broker_id", status.broker_id())
      .Text("started", FormatTime(status.start_time()))
      .Number("uptime_ms", FromProto(status.uptime()).count())
      .Texts("listen", {status.listen_addresses().begin(), status.listen_addresses().end()})
      .Text("store_url", status.store_url())
      .Text("store_state", status.store_state() == v1::STORE_STATE_UP ? "up" : "down")
      .Text("store_problem", status.store_problem())
      .Flag("draining", status.draining())
      .Number("sessions", status.sessions())
      .Number("leases", status.leases())
      .Number("waiters", status.waiters())
      .Number("shards", status.shards())
      .Number("validity_ms", FromProto(status.validity()).count())
      .Number("wait_replicas", status.wait_replicas())
      .List("store_nodes", nodes);
}

// A broker whose store is down cannot serve, so the exit code is the same as for a broker that cannot be reached.
int Status(const Context& context) {
  const auto [channel, failed] = Connect(context);
  if (!channel) return failed;
  v1::GetStatusResponse response;
  const grpc::Status status = GetStatus(context, channel, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  if (!context.PrintLines(StatusAsText(response), StatusAsJson(response))) return kExitInternal;
  return response.store_state() == v1::STORE_STATE_UP ? kExitOk : kExitUnavailable;
}

// Waits until no broker listens at the address any more, or another one answers there. Returns a failure when the
// broker falls silent, since it may still run with all its locks.
std::optional<Failure> WaitUntilGone(const Context& context, const std::shared_ptr<grpc::Channel>& channel,
                                     const std::string& broker_id) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetweenLooks = std::chrono::milliseconds(200);
  v1::GetStatusResponse now;
  auto answered = Clock::now();
  while (true) {
    const grpc::Status status = GetStatus(context, channel, &now);
    if (status.ok() && now.broker_id() != broker_id) return std::nullopt;
    const bool answer = status.ok() || FailureFrom(status).from_broker;
    if (!answer && status.error_code() == grpc::StatusCode::UNAVAILABLE) return std::nullopt;
    if (answer) {
      answered = Clock::now();
    } else if (Clock::now() - answered >= context.connect_timeout) {
      Failure failure = FailureFrom(status);
      failure.exit_code = kExitUnavailable;
      failure.message =
          absl::StrCat("broker ", broker_id, " has not answered for ", FormatDuration(context.connect_timeout),
                       ", but is still there: it may not have drained yet");
      return failure;
    }
    // Returns early when the connection ends.
    auto state = channel->GetState(false);
    if (state == GRPC_CHANNEL_READY)
      channel->WaitForStateChange(state, std::chrono::system_clock::now() + kBetweenLooks);
  }
}

const char* KindName(v1::StreamKind kind) {
  switch (kind) {
    case v1::STREAM_KIND_SESSION:
      return "session";
    case v1::STREAM_KIND_HOLD:
      return "hold";
    case v1::STREAM_KIND_WATCH:
      return "watch";
    default:
      return "unknown";
  }
}

bool PrintSession(const Context& context, const v1::SessionInfo& session) {
  const std::string since = FormatTime(session.open_time());
  return context.Print(
      absl::StrCat(Column(session.session_id(), 20), " ", Column(KindName(session.kind()), 7), "  ", session.leases(),
                   " leases, ", session.waiters(), " waiters  since ", since, "  from ", session.peer(),
                   session.identity().empty() ? "" : " as ", session.identity(), "  ", session.client()),
      Json()
          .Text("session_id", session.session_id())
          .Text("kind", KindName(session.kind()))
          .Text("client", session.client())
          .Text("peer", session.peer())
          .Text("identity", session.identity())
          .Text("since", since)
          .Number("leases", session.leases())
          .Number("waiters", session.waiters()));
}

int Sessions(const Context& context) {
  const auto [channel, failed] = Connect(context);
  if (!channel) return failed;
  v1::ListSessionsRequest request;
  request.set_page_size(1000);
  do {
    v1::ListSessionsResponse page;
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
    const grpc::Status status = v1::AdminService::NewStub(channel)->ListSessions(&call, request, &page);
    if (!status.ok()) return context.Fail(FailureFrom(status));
    for (const v1::SessionInfo& session : page.sessions()) {
      if (!PrintSession(context, session)) return kExitInternal;
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return kExitOk;
}

int Drain(const Context& context, const DrainArgs& args) {
  const auto [channel, failed] = Connect(context);
  if (!channel) return failed;
  v1::GetStatusResponse before;
  if (const grpc::Status status = GetStatus(context, channel, &before); !status.ok()) {
    return context.Fail(FailureFrom(status));
  }
  v1::DrainRequest request;
  if (args.timeout) *request.mutable_timeout() = ToProto(*args.timeout);
  v1::DrainResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  const grpc::Status status = v1::AdminService::NewStub(channel)->Drain(&call, request, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  const Millis timeout = FromProto(response.timeout());
  const bool printed = context.Print(absl::StrCat("draining broker ", before.broker_id(), ": ", response.leases(),
                                                  " leases have ", FormatDuration(timeout)),
                                     Json()
                                         .Text("event", "draining")
                                         .Text("broker_id", before.broker_id())
                                         .Number("leases", response.leases())
                                         .Number("timeout_ms", timeout.count()));
  if (!printed) return kExitInternal;
  if (!args.wait) return kExitOk;
  if (const auto unknown = WaitUntilGone(context, channel, before.broker_id())) return context.Fail(*unknown);
  return context.Print("drained", Json().Text("event", "drained").Text("broker_id", before.broker_id()))
             ? kExitOk
             : kExitInternal;
}

// The broker answers when the last promise to the holders has ended, which takes longer than other answers.
constexpr auto kForcePatience = std::chrono::seconds(30);

int ForceRelease(const Context& context, const ForceArgs& args) {
  const auto [channel, failed] = Connect(context);
  if (!channel) return failed;
  v1::ForceReleaseRequest request;
  request.set_namespace_(args.lock.name_space);
  request.set_key(args.lock.key);
  request.set_holder_id(args.holder_id);
  request.set_reason(args.reason);
  v1::ForceReleaseResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout + kForcePatience);
  const grpc::Status status = v1::AdminService::NewStub(channel)->ForceRelease(&call, request, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  const int32_t count = response.released();
  const std::string text =
      count == 0 ? absl::StrCat(args.lock.Name(), " was held by nobody", args.holder_id.empty() ? "" : " with that id")
                 : absl::StrCat(args.lock.Name(), " was taken from ", count, count == 1 ? " holder" : " holders");
  if (!context.Print(text, Json().Text("event", "force_released").Number("released", count))) return kExitInternal;
  return count > 0 ? kExitOk : kExitBusy;
}

}  // namespace

void AddBrokerCommands(CLI::App& app, Context& context) {
  auto* status =
      app.add_subcommand("status", "Print the state of the broker and its store; exit code 69 when the store is down");
  AddContextFlags(*status, context);
  status->footer(
      "Examples:\n"
      "  distlockctl status\n"
      "  distlockctl status --server 10.0.0.5:7420 -o json | jq .leases");
  status->callback([&context] { context.command = [&context] { return Status(context); }; });

  auto* sessions =
      app.add_subcommand("sessions", "List the streams that clients have open at the broker, oldest first");
  AddContextFlags(*sessions, context);
  sessions->footer(
      "Kinds: session (a program that uses a library, run, elect, hold), hold (the RPC of one lock), watch. Detached\n"
      "leases, which acquire takes, have no stream.\n\n"
      "Examples:\n"
      "  distlockctl sessions\n"
      "  distlockctl sessions -o json | jq -r 'select(.leases > 0) | .peer'");
  sessions->callback([&context] { context.command = [&context] { return Sessions(context); }; });

  auto* drain = app.add_subcommand("drain", "Make the broker refuse new locks, wait for the present holders, and exit");
  auto args = std::make_shared<DrainArgs>();
  AddDurationFlag(
      *drain, "--timeout", [args](Millis value) { args->timeout = value; },
      "How long holders may keep their locks (default: the broker's --drain-timeout)");
  drain->add_flag("--wait", args->wait, "Return when the broker has exited");
  AddContextFlags(*drain, context);
  drain->footer(
      "Exit code: 0 the broker drains, or with --wait has exited; 69 it was not reached, or with --wait stopped\n"
      "answering.\n\n"
      "Examples:\n"
      "  distlockctl drain --wait\n"
      "  distlockctl drain --timeout 2m");
  drain->callback([&context, args] { context.command = [&context, args] { return Drain(context, *args); }; });

  auto* force = app.add_subcommand("force-release", "Take a lock from its holders");
  auto forced = std::make_shared<ForceArgs>();
  AddKeyFlags(*force, forced->lock);
  force->add_option("--holder-id", forced->holder_id, "Take it only from the holder with this id, as printed by show")
      ->type_name("ID");
  force->add_option("--reason", forced->reason, "Text for the broker's log and for the holder")->type_name("TEXT");
  AddContextFlags(*force, context);
  force->footer(
      "Returns when the broker's last promise to the holders has ended, after a few seconds at most. The broker\n"
      "cannot inform the holder of a detached lease, or a holder behind a broker that is out of reach: it may go on\n"
      "until its ttl ends, and only the fencing token stops it.\n"
      "Exit code: 0 the lock was taken from a holder; 1 nobody held it; 69 the outcome is unknown.\n\n"
      "Examples:\n"
      "  distlockctl force-release deploy --reason 'host is gone'\n"
      "  distlockctl force-release catalog --holder-id 0123456789abcdef -o json | jq .released");
  force->callback(
      [&context, forced] { context.command = [&context, forced] { return ForceRelease(context, *forced); }; });
}

}  // namespace distlock::cli
