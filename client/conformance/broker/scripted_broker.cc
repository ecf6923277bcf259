// SPDX-License-Identifier: Apache-2.0
//
// distlock_scripted_broker: a FakeBroker in a process of its own, so that clients in any language can be run against
// it, and so that it can be killed and frozen. Commands come as JSON lines on stdin, each answered by a line `done` or
// `error` on stdout; what the clients send is told there, too. client/conformance/steps.py has the steps that lead to
// these commands. Ends with stdin.
#include <absl/strings/escaping.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "fake_broker.h"

namespace distlock::testing {
namespace {

using nlohmann::json;
using Behaviour = FakeBroker::Behaviour;
using Sight = FakeBroker::Sight;

// One line on stdout, whole and at once. Any thread.
void Print(const json& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string text = line.dump() + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + sent, text.size() - sent);
    if (n <= 0) std::_Exit(3);  // nobody reads any more
    sent += static_cast<size_t>(n);
  }
}

json AsJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return "not printable";
  return json::parse(text);
}

void Parse(const json& from, google::protobuf::Message& to) {
  const auto status = google::protobuf::util::JsonStringToMessage(from.dump(), &to);
  if (!status.ok()) throw std::invalid_argument(std::string(status.ToString()));
}

void Tell(const Sight& sight) {
  json line = {{"session", sight.session}, {"at", sight.at_ns}};
  switch (sight.kind) {
    case Sight::Kind::kSession:
      line["event"] = "session";
      break;
    case Sight::Kind::kMessage:
      line["event"] = "message";
      line["bytes"] = sight.bytes;
      break;
    case Sight::Kind::kCommand:
      line["event"] = "command";
      line["command"] = AsJson(*sight.command);
      break;
    case Sight::Kind::kHalfClosed:
    case Sight::Kind::kOver:
      line["event"] = "over";
      line["half_closed"] = sight.kind == Sight::Kind::kHalfClosed;
      break;
    case Sight::Kind::kBrokenRule:
      line["event"] = "broken_rule";
      line["rule"] = sight.rule;
      break;
  }
  Print(line);
}

grpc::Status StatusOf(const json& line) {
  static const std::map<std::string, grpc::StatusCode> kCodes = {
      {"OK", grpc::StatusCode::OK},
      {"ABORTED", grpc::StatusCode::ABORTED},
      {"INTERNAL", grpc::StatusCode::INTERNAL},
      {"INVALID_ARGUMENT", grpc::StatusCode::INVALID_ARGUMENT},
      {"PERMISSION_DENIED", grpc::StatusCode::PERMISSION_DENIED},
      {"RESOURCE_EXHAUSTED", grpc::StatusCode::RESOURCE_EXHAUSTED},
      {"UNAUTHENTICATED", grpc::StatusCode::UNAUTHENTICATED},
      {"UNAVAILABLE", grpc::StatusCode::UNAVAILABLE},
  };
  const auto code = kCodes.find(line.at("code").get<std::string>());
  if (code == kCodes.end()) throw std::invalid_argument("code cannot be " + line.at("code").dump());
  if (code->second == grpc::StatusCode::OK) return grpc::Status::OK;
  const std::string message = line.value("message", "as the script says");
  if (!line.contains("reason")) return {code->second, message};
  return StatusWith(code->second, message, line.at("reason").get<std::string>());
}

const std::map<std::string, std::function<void(Behaviour&, const json&)>>& Switches() {
  static const std::map<std::string, std::function<void(Behaviour&, const json&)>> kSwitches = {
      {"answer_adoptions", [](Behaviour& b, const json& to) { to.get_to(b.answer_adoptions); }},
      {"answer_cancels", [](Behaviour& b, const json& to) { to.get_to(b.answer_cancels); }},
      {"answer_downgrades", [](Behaviour& b, const json& to) { to.get_to(b.answer_downgrades); }},
      {"answer_heartbeats", [](Behaviour& b, const json& to) { to.get_to(b.answer_heartbeats); }},
      {"answer_open", [](Behaviour& b, const json& to) { to.get_to(b.answer_open); }},
      {"answer_releases", [](Behaviour& b, const json& to) { to.get_to(b.answer_releases); }},
      {"features", [](Behaviour& b, const json& to) { to.get_to(b.features); }},
      {"store_id", [](Behaviour& b, const json& to) { to.get_to(b.store_id); }},
      {"grant", [](Behaviour& b, const json& to) { to.get_to(b.grant); }},
      {"heartbeat_interval_ms", [](Behaviour& b, const json& to) { to.get_to(b.heartbeat_interval_ms); }},
      {"max_leases", [](Behaviour& b, const json& to) { to.get_to(b.max_leases); }},
      {"max_message_bytes", [](Behaviour& b, const json& to) { to.get_to(b.max_message_bytes); }},
      {"max_unanswered", [](Behaviour& b, const json& to) { to.get_to(b.max_unanswered); }},
      {"sessions", [](Behaviour& b, const json& to) { b.open_status = StatusOf(to); }},
      {"validity_ms", [](Behaviour& b, const json& to) { to.get_to(b.validity_ms); }},
  };
  return kSwitches;
}

void Set(FakeBroker& broker, const json& line) {
  for (const auto& [name, value] : line.at("to").items()) {
    const auto found = Switches().find(name);
    if (found == Switches().end()) throw std::invalid_argument("there is no switch " + name);
    broker.Set([&](Behaviour& b) { found->second(b, value); });
  }
}

void Send(FakeBroker& broker, const json& line) {
  v1::SessionResponse response;
  for (const json& event : line.value("events", json::array())) Parse(event, *response.add_events());
  // Bytes of a SessionResponse, for what this program's version of the contract does not know.
  if (const std::string hex = line.value("hex", ""); !response.MergeFromString(absl::HexStringToBytes(hex)))
    throw std::invalid_argument("hex is no SessionResponse");
  // A message of at least so many bytes, most of them in a field that nobody knows.
  if (const size_t bytes = line.value("padding", size_t{0}); bytes > 0)
    response.GetReflection()->MutableUnknownFields(&response)->AddLengthDelimited(1000, std::string(bytes, 'x'));
  if (!broker.Send(line.value("session", int64_t{0}), response)) throw std::invalid_argument("that session is over");
}

void Obey(FakeBroker& broker, const json& line) {
  const auto what = line.at("do").get<std::string>();
  if (what == "set") {
    Set(broker, line);
  } else if (what == "send") {
    Send(broker, line);
  } else if (what == "end") {
    if (!broker.End(line.value("session", int64_t{0}), StatusOf(line)))
      throw std::invalid_argument("that session is over");
  } else if (what == "break") {
    broker.BreakStreams();
  } else if (what == "drain") {
    broker.Drain();
  } else if (what == "hold") {
    broker.Hold(line.at("key").get<std::string>());
  } else if (what == "free") {
    broker.Free(line.at("key").get<std::string>());
  } else {
    throw std::invalid_argument("cannot do " + what);
  }
}

int Main(int argc, char** argv) {
  std::string listen;
  CLI::App app("A broker for tests of clients: it does what the JSON lines on its stdin say.");
  app.add_option("--listen", listen,
                 "a gRPC target such as unix:///path or 127.0.0.1:0; a socket of its own by default");
  CLI11_PARSE(app, argc, argv);
  FakeBroker broker({}, listen, Tell);
  Print({{"event", "listening"}, {"address", broker.address()}});
  std::string text;
  while (std::getline(std::cin, text)) {
    if (text.empty()) continue;
    try {
      Obey(broker, json::parse(text));
      Print({{"event", "done"}});
    } catch (const std::exception& error) {
      Print({{"event", "error"}, {"message", error.what()}, {"line", text}});
    }
  }
  return 0;
}

}  // namespace
}  // namespace distlock::testing

int main(int argc, char** argv) { return distlock::testing::Main(argc, argv); }
