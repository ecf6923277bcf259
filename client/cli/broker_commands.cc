// SPDX-License-Identifier: Apache-2.0
//
// status, drain, force-release: the commands of operators.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <distlock/admin.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>

#include "commands.h"
#include "explain.h"
#include "healthz.h"
#include "lock_flags.h"
#include "other_reading.h"
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

std::string WordOf(StoreNodeState state) {
  if (state == StoreNodeState::kUp) return "up";
  return state == StoreNodeState::kHeldOff ? "held off" : "down";
}

// ", up, counted, clock 2ms ahead", or ", up, not counted for 12s: it may have forgotten ...".
std::string VoteOf(const StoreNode& node) {
  if (node.state == StoreNodeState::kDown) return ", down";
  const bool held_off = node.state == StoreNodeState::kHeldOff;
  std::string text = absl::StrCat(", up, ", node.not_counted.empty() ? "counted" : "not counted");
  if (held_off && node.hold_off_left) {
    absl::StrAppend(&text, " for ", FormatDuration(*node.hold_off_left));
  }
  if (!node.not_counted.empty()) absl::StrAppend(&text, ": ", node.not_counted);
  if (!node.clock_skew) return text;
  const auto skew = std::chrono::duration_cast<std::chrono::milliseconds>(*node.clock_skew);
  const bool behind = skew < skew.zero();
  return absl::StrCat(text, ", clock ", FormatDuration(behind ? -skew : skew), behind ? " behind" : " ahead");
}

// "primary   10.0.0.7:6379, up, identity 1a2b3c4d, epoch 3", then a line for each replica. One of several independent
// servers is a "server", with what its votes are worth.
void AddNode(const StoreNode& node, std::vector<std::string>& lines) {
  std::string line = absl::StrCat(node.independent ? "server    " : "primary   ", node.address);
  if (node.independent) {
    line += VoteOf(node);
  } else {
    absl::StrAppend(&line, ", ", WordOf(node.state));
    if (node.state == StoreNodeState::kHeldOff) {
      const std::string left = node.hold_off_left ? FormatDuration(*node.hold_off_left) : "a while";
      absl::StrAppend(&line, " (no new locks for ", left, ")");
    }
  }
  if (!node.problem.empty()) absl::StrAppend(&line, ": ", node.problem);
  if (!node.refusal.empty()) absl::StrAppend(&line, ", refuses writes: ", node.refusal);
  if (!node.version.empty()) absl::StrAppend(&line, ", version ", node.version);
  if (!node.identity.empty()) absl::StrAppend(&line, ", identity ", node.identity);
  if (node.epoch > 0) absl::StrAppend(&line, ", epoch ", node.epoch);
  if (!node.guard.empty() && !node.independent) {
    absl::StrAppend(&line, ", hold-off after a failover: ", node.guard);
  }
  lines.push_back(std::move(line));
  for (const StoreReplica& replica : node.replicas) {
    lines.push_back(absl::StrCat("replica   ", replica.address, replica.online ? ", online" : ", not in step", ", lag ",
                                 FormatDuration(replica.lag)));
  }
}

std::vector<std::string> StatusAsText(const BrokerStatus& status) {
  const bool up = status.store_up;
  std::vector<std::string> lines = {
      absl::StrCat("broker    ", status.broker_id, ", version ", status.version, status.draining ? ", DRAINING" : ""),
      absl::StrCat("started   ", FormatTime(status.start_time), ", up ", FormatDuration(status.uptime)),
      absl::StrCat("listen    ", absl::StrJoin(status.listen_addresses, " ")),
      absl::StrCat(
          "store     ", status.store_url, up ? ", up" : ", DOWN: ", up ? "" : status.store_problem,
          status.store_refusal.empty() ? "" : ", but TAKES NO WRITES, so no lock is granted: ", status.store_refusal),
      absl::StrCat("sessions  ", status.streams),
      absl::StrCat("leases    ", status.leases),
      absl::StrCat("waiters   ", status.waiters),
      absl::StrCat("shards    ", status.shards),
      absl::StrCat("validity  ", FormatDuration(status.validity))};
  if (status.wait_replicas > 0) {
    lines.push_back(absl::StrCat("confirm   ", status.wait_replicas, " of the replicas must have each grant"));
  }
  for (const StoreNode& node : status.store_nodes) AddNode(node, lines);
  return lines;
}

Json NodeAsJson(const StoreNode& node) {
  std::vector<Json> replicas;
  for (const StoreReplica& replica : node.replicas) {
    replicas.push_back(
        Json{{"address", replica.address}, {"online", replica.online}, {"lag_ms", InMillis(replica.lag)}});
  }
  Json json{
      {"address", node.address},   {"state", node.state == StoreNodeState::kHeldOff ? "held_off" : WordOf(node.state)},
      {"problem", node.problem},   {"refusal", node.refusal},
      {"role", node.role},         {"version", node.version},
      {"identity", node.identity}, {"epoch", node.epoch},
      {"guard", node.guard}};
  json["hold_off_left_ms"] = node.hold_off_left ? Json(InMillis(*node.hold_off_left)) : nullptr;
  json["replicas"] = replicas;
  json["primary_changes"] = node.primary_changes;
  if (!node.independent) return json;
  json["counted"] = node.not_counted.empty();
  json["not_counted"] = node.not_counted;
  const auto skew = [&] { return std::chrono::duration_cast<std::chrono::microseconds>(*node.clock_skew).count(); };
  json["clock_skew_us"] = node.clock_skew ? Json(skew()) : nullptr;
  return json;
}

Json StatusAsJson(const BrokerStatus& status) {
  std::vector<Json> nodes;
  for (const StoreNode& node : status.store_nodes) nodes.push_back(NodeAsJson(node));
  return Json{{"version", status.version},
              {"broker_id", status.broker_id},
              {"started", FormatTime(status.start_time)},
              {"uptime_ms", InMillis(status.uptime)},
              {"listen", status.listen_addresses},
              {"store_url", status.store_url},
              {"store_state", status.store_up ? "up" : "down"},
              {"store_problem", status.store_problem},
              {"store_refusal", status.store_refusal},
              {"draining", status.draining},
              {"sessions", status.streams},
              {"leases", status.leases},
              {"waiters", status.waiters},
              {"shards", status.shards},
              {"validity_ms", InMillis(status.validity)},
              {"wait_replicas", status.wait_replicas},
              {"store_nodes", nodes}};
}

// The exit code: kExitUnavailable if no lock is granted.
int Explain(const Context& context, const BrokerStatus& status) {
  std::vector<std::string> lines;
  std::vector<Json> obstacles;
  bool grants = true;
  for (const Obstacle& one : ObstaclesOf(status)) {
    grants = grants && !one.stops_all;
    lines.push_back(absl::StrCat(one.what, " ", one.advice));
    obstacles.push_back(Json{{"what", one.what}, {"advice", one.advice}, {"stops_all", one.stops_all}});
  }
  if (lines.empty()) lines = {"Nothing but their holders keeps locks from being granted; `distlockctl ls` lists them."};
  if (!context.PrintLines(lines, Json{{"grants", grants}, {"obstacles", obstacles}})) return kExitInternal;
  return grants ? kExitOk : kExitUnavailable;
}

// A broker whose store is down, or takes no writes, cannot serve, so the exit code is the same as for a broker that
// cannot be reached.
int Status(const Context& context, bool explain) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  const auto status = Admin(*client).Status();
  if (!status.ok()) return context.Fail(FailureFrom(context, status.refusal()));
  if (explain) return Explain(context, *status);
  if (!context.PrintLines(StatusAsText(*status), StatusAsJson(*status))) return kExitInternal;
  return status->store_up && status->store_refusal.empty() ? kExitOk : kExitUnavailable;
}

// Nothing: the failure has been reported.
std::optional<bool> AnswersCalls(Context context) {
  if (!context.connect_timeout_given) context.connect_timeout = std::chrono::seconds(2);
  const auto [client, failed] = Open(context);
  if (!client) return std::nullopt;
  const auto status = Admin(*client).Status();
  // A broker that refuses to tell its state is alive.
  return status.ok() || ExitCodeOf(status.refusal().reason) == kExitDenied;
}

int Alive(const Context& context) {
  const char* const set = std::getenv("DISTLOCK_HTTP");
  const std::string http = !context.server.empty() ? "" : set == nullptr ? "127.0.0.1:9420" : set;
  const std::optional<bool> alive = http.empty() ? AnswersCalls(context) : IsHealthy(http);
  if (!alive) return kExitUnavailable;
  if (*alive) return context.Print("alive", Json{{"alive", true}}) ? kExitOk : kExitInternal;
  const std::string asked = http.empty() ? context.Target() : absl::StrCat("http://", http, "/healthz");
  return context.Fail(
      OwnFailure("UNAVAILABLE", absl::StrCat("no broker says that it is alive at ", asked), kExitUnavailable));
}

const char* KindName(StreamKind kind) {
  switch (kind) {
    case StreamKind::kSession:
      return "session";
    case StreamKind::kHold:
      return "hold";
    case StreamKind::kWatch:
      return "watch";
    default:
      return "unknown";
  }
}

bool PrintSession(const Context& context, const StreamInfo& session) {
  const std::string since = FormatTime(session.open_time);
  return context.Print(
      absl::StrCat(Column(session.session_id, 20), " ", Column(KindName(session.kind), 7), "  ", session.leases,
                   " leases, ", session.waiters, " waiters  since ", since, "  from ", session.peer,
                   session.identity.empty() ? "" : " as ", session.identity, "  ", session.client),
      Json{{"session_id", session.session_id},
           {"kind", KindName(session.kind)},
           {"client", session.client},
           {"peer", session.peer},
           {"identity", session.identity},
           {"since", since},
           {"leases", session.leases},
           {"waiters", session.waiters}});
}

int Sessions(const Context& context) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  Admin admin(*client);
  std::string page_token;
  do {
    const auto page = admin.Streams(page_token);
    if (!page.ok()) return context.Fail(FailureFrom(context, page.refusal()));
    for (const StreamInfo& session : page->streams) {
      if (!PrintSession(context, session)) return kExitInternal;
    }
    page_token = page->next_page_token;
  } while (!page_token.empty());
  return kExitOk;
}

int Drain(const Context& context, const DrainArgs& args) {
  if (const size_t brokers = context.Targets().size(); brokers > 1) {
    return context.Fail(UsageFailure(
        absl::StrCat("drain ends one broker, and ", context.Target(), " are ", brokers, ": give --server only one")));
  }
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  Admin admin(*client);
  const auto before = admin.Status();
  if (!before.ok()) return context.Fail(FailureFrom(context, before.refusal()));
  const std::string& broker_id = before->broker_id;
  const auto begun = admin.Drain(args.timeout);
  if (!begun.ok()) return context.Fail(FailureFrom(context, begun.refusal()));
  const bool printed = context.Print(
      absl::StrCat("draining broker ", broker_id, ": ", begun->leases, " leases have ", FormatDuration(begun->timeout)),
      Json{{"event", "draining"},
           {"broker_id", broker_id},
           {"leases", begun->leases},
           {"timeout_ms", InMillis(begun->timeout)}});
  if (!printed) return kExitInternal;
  if (!args.wait) return kExitOk;
  if (const auto silent = admin.WaitUntilGone(broker_id)) {
    Failure failure = FailureFrom(context, *silent);
    failure.message =
        absl::StrCat("broker ", broker_id, " has not answered for ", FormatDuration(context.connect_timeout),
                     ", but is still there: it may not have drained yet");
    return context.Fail(failure);
  }
  return context.Print("drained", Json{{"event", "drained"}, {"broker_id", broker_id}}) ? kExitOk : kExitInternal;
}

int ForceRelease(const Context& context, const ForceArgs& args) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  // Only for the words of the answer, which counts a block as the holder that left it.
  const auto before = Inspector(*client).Look(args.lock.key, args.lock.name_space);
  const bool only_blocked = before.ok() && before->holder_count == 0 && before->block;
  const auto released = Admin(*client).ForceRelease(args.lock.key, args.lock.name_space, args.holder_id, args.reason);
  if (!released.ok()) return context.Fail(FailureFrom(context, released.refusal()));
  const int32_t count = *released;
  const std::string text =
      count == 0 ? absl::StrCat(args.lock.Name(), " was held by nobody", args.holder_id.empty() ? "" : " with that id")
      : only_blocked
          ? absl::StrCat("the block of ", args.lock.Name(), ", which ", before->block->owner, " had left, was ended")
          : absl::StrCat(args.lock.Name(), " was taken from ", count, count == 1 ? " holder" : " holders");
  if (!context.Print(text, Json{{"event", "force_released"}, {"released", count}})) return kExitInternal;
  if (count == 0) WarnOfOtherReading(context, *client, args.lock);
  return count > 0 ? kExitOk : kExitBusy;
}

void AddStatus(CLI::App& app, Context& context) {
  auto* status =
      app.add_subcommand("status",
                         "Print the state of the broker and its store; exit code 69 when the store is down or takes no "
                         "writes");
  auto explain = std::make_shared<bool>(false);
  auto alive = std::make_shared<bool>(false);
  auto* words =
      status->add_flag("--explain", *explain, "Say in words what keeps locks from being granted, and what to do")
          ->option_text(" ");
  status
      ->add_flag("--alive", *alive,
                 "Say only whether the broker is alive, whatever its store does: a container's check of health.\n"
                 "Asks /healthz at DISTLOCK_HTTP (default 127.0.0.1:9420), or, where that is empty or with\n"
                 "--server, the broker itself")
      ->option_text(" ")
      ->excludes(words);
  AddContextFlags(*status, context);
  status->footer(
      "Examples:\n"
      "  distlockctl status --explain\n"
      "  distlockctl status\n"
      "  distlockctl status --alive\n"
      "  distlockctl status --server 10.0.0.5:7420 -o json | jq .leases");
  status->callback([&context, explain, alive] {
    context.command = [&context, explain, alive] { return *alive ? Alive(context) : Status(context, *explain); };
  });
}

void AddSessions(CLI::App& app, Context& context) {
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
}

void AddDrain(CLI::App& app, Context& context) {
  auto* drain = app.add_subcommand("drain", "Make the broker refuse new locks, wait for the present holders, and exit");
  auto args = std::make_shared<DrainArgs>();
  AddDurationFlag(
      *drain, "--timeout", [args](Millis value) { args->timeout = value; },
      "How long holders may keep their locks (default: the broker's --drain-timeout)");
  drain->add_flag("--wait", args->wait, "Return when the broker has exited");
  AddContextFlags(*drain, context);
  drain->footer(
      "Returns as soon as the broker has begun. The broker then waits for its holders, for --timeout at most, and\n"
      "exits; --wait returns after that.\n"
      "Exit code: 0 the broker drains, or with --wait has exited; 69 it was not reached, or with --wait stopped\n"
      "answering.\n\n"
      "Examples:\n"
      "  distlockctl drain --wait\n"
      "  distlockctl drain --timeout 2m");
  drain->callback([&context, args] { context.command = [&context, args] { return Drain(context, *args); }; });
}

void AddForceRelease(CLI::App& app, Context& context) {
  auto* force = app.add_subcommand("force-release", "Take a lock from its holders, and end its block");
  auto forced = std::make_shared<ForceArgs>();
  AddKeyFlags(*force, forced->lock);
  force->add_option("--holder-id", forced->holder_id, "Take it only from the holder with this id, as printed by show")
      ->type_name("ID");
  force->add_option("--reason", forced->reason, "Text for the broker's log and for the holder")->type_name("TEXT");
  AddContextFlags(*force, context);
  force->footer(
      "Waits until the broker's last promise to the holders has ended, a few seconds at most, and not until their\n"
      "programs have stopped. The broker cannot inform the holder of a detached lease, or a holder behind a broker\n"
      "that is out of reach: it may go on until its ttl ends, and only the fencing token stops it. A block that a\n"
      "lock delay or --once-per left is ended, too, unless --holder-id is given; it counts as the holder that left\n"
      "it.\n"
      "Exit code: 0 the lock was taken from a holder; 1 nobody held it; 69 the outcome is unknown.\n\n"
      "Examples:\n"
      "  distlockctl force-release deploy --reason 'host is gone'\n"
      "  distlockctl force-release catalog --holder-id 0123456789abcdef -o json | jq .released");
  force->callback(
      [&context, forced] { context.command = [&context, forced] { return ForceRelease(context, *forced); }; });
}

}  // namespace

void AddBrokerCommands(CLI::App& app, Context& context) {
  AddStatus(app, context);
  AddSessions(app, context);
  AddDrain(app, context);
  AddForceRelease(app, context);
}

}  // namespace distlock::cli
