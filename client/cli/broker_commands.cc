// SPDX-License-Identifier: Apache-2.0
//
// status, drain: the broker itself.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "commands.h"
#include "distlock/v1/admin_service.grpc.pb.h"

namespace distlock::cli {
namespace {

struct DrainArgs {
  std::optional<Millis> timeout;
  bool wait = false;
};

grpc::Status GetStatus(const Context& context, const std::shared_ptr<grpc::Channel>& channel,
                       v1::GetStatusResponse* response) {
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context.connect_timeout);
  return v1::AdminService::NewStub(channel)->GetStatus(&call, {}, response);
}

std::string StatusAsText(const v1::GetStatusResponse& status) {
  const bool up = status.store_state() == v1::STORE_STATE_UP;
  return absl::StrCat("broker    ", status.broker_id(), ", version ", status.version(),
                      status.draining() ? ", DRAINING" : "", "\nstarted   ", FormatTime(status.started()), ", up ",
                      FormatDuration(FromProto(status.uptime())), "\nlisten    ", absl::StrJoin(status.listen(), " "),
                      "\nstore     ", status.store_url(),
                      up ? ", up" : absl::StrCat(", DOWN: ", status.store_problem()), "\nsessions  ", status.sessions(),
                      "\nleases    ", status.leases(), "\nwaiters   ", status.waiters(), "\nshards    ",
                      status.shards(), "\nvalidity  ", FormatDuration(FromProto(status.validity())));
}

Json StatusAsJson(const v1::GetStatusResponse& status) {
  return Json()
      .Text("version", status.version())
      .Text("broker_id", status.broker_id())
      .Text("started", FormatTime(status.started()))
      .Number("uptime_ms", FromProto(status.uptime()).count())
      .Texts("listen", {status.listen().begin(), status.listen().end()})
      .Text("store_url", status.store_url())
      .Text("store_state", status.store_state() == v1::STORE_STATE_UP ? "up" : "down")
      .Text("store_problem", status.store_problem())
      .Flag("draining", status.draining())
      .Number("sessions", static_cast<int64_t>(status.sessions()))
      .Number("leases", static_cast<int64_t>(status.leases()))
      .Number("waiters", static_cast<int64_t>(status.waiters()))
      .Number("shards", status.shards())
      .Number("validity_ms", FromProto(status.validity()).count());
}

// Reaching the broker is not enough: one whose store is down serves nobody, and a health check must see that.
int Status(const Context& context) {
  const auto channel = Connect(context);
  if (!channel) return kExitUnavailable;
  v1::GetStatusResponse response;
  const grpc::Status status = GetStatus(context, channel, &response);
  if (!status.ok()) return context.Fail(FailureFrom(status));
  if (!context.Print(StatusAsText(response), StatusAsJson(response))) return kExitInternal;
  return response.store_state() == v1::STORE_STATE_UP ? kExitOk : kExitUnavailable;
}

// The broker is gone when nobody answers there, or when another one does.
void WaitUntilGone(const Context& context, const std::shared_ptr<grpc::Channel>& channel,
                   const std::string& broker_id) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(200);
  v1::GetStatusResponse now;
  while (true) {
    const grpc::Status status = GetStatus(context, channel, &now);
    if (!status.ok() && !FailureFrom(status).from_broker) return;
    if (status.ok() && now.broker_id() != broker_id) return;
    // Wakes at once when the connection ends.
    auto state = channel->GetState(false);
    if (state == GRPC_CHANNEL_READY)
      channel->WaitForStateChange(state, std::chrono::system_clock::now() + kBetweenLooks);
  }
}

int Drain(const Context& context, const DrainArgs& args) {
  const auto channel = Connect(context);
  if (!channel) return kExitUnavailable;
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
                                         .Number("leases", static_cast<int64_t>(response.leases()))
                                         .Number("timeout_ms", timeout.count()));
  if (!printed) return kExitInternal;
  if (!args.wait) return kExitOk;
  WaitUntilGone(context, channel, before.broker_id());
  return context.Print("drained", Json().Text("event", "drained").Text("broker_id", before.broker_id()))
             ? kExitOk
             : kExitInternal;
}

}  // namespace

void AddBrokerCommands(CLI::App& app, Context& context) {
  auto* status = app.add_subcommand("status", "The broker and its store; 69 when the store is down");
  AddContextFlags(*status, context);
  status->footer(
      "Examples:\n"
      "  distlockctl status\n"
      "  distlockctl status --server 10.0.0.5:7420 -o json | jq .leases");
  status->callback([&context] { context.command = [&context] { return Status(context); }; });

  auto* drain = app.add_subcommand("drain", "Let the broker finish and exit: no new locks, holders may end in peace");
  auto args = std::make_shared<DrainArgs>();
  AddDurationFlag(
      *drain, "--timeout", [args](Millis value) { args->timeout = value; },
      "How long holders may take before their leases are lost (default: the broker's own)");
  drain->add_flag("--wait", args->wait, "Return when the broker has gone");
  AddContextFlags(*drain, context, /*own_timeout=*/true);
  drain->footer(
      "Examples:\n"
      "  distlockctl drain --wait\n"
      "  distlockctl drain --timeout 2m");
  drain->callback([&context, args] { context.command = [&context, args] { return Drain(context, *args); }; });
}

}  // namespace distlock::cli
