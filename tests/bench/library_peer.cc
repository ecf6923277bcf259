// SPDX-License-Identifier: Apache-2.0
#include "bench/library_peer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/handoff.h"
#include "bench/process.h"

namespace distlock::bench {
namespace {

using nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(120);  // beyond the closed loop's own length
constexpr double kWarmSeconds = 2;                     // Node.js compiles until then, and would look half as fast

const std::string& Folder() {
  static const std::string folder = DISTLOCK_BENCH_PEERS;
  return folder;
}

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, false);
}

// What stands behind `mark` in a file, up to the next space; "": nothing.
std::string WordBehind(const std::string& path, const std::string& mark) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t found = text.find(mark);
  if (found == std::string::npos) return "";
  const size_t begin = found + mark.size();
  return text.substr(begin, text.find_first_of(" \n)", begin) - begin);
}

// The missing program or package; "": none.
std::string Missing(const Library& library) {
  const char* remedy = " is not installed; deploy/install-deps.sh --peers";
  const std::string program = library.language == "python" ? "bash" : library.language;
  if (!HasProgram(program)) return program + remedy;
  if (library.language != "node") return "";
  const bool ours = library.system == "distlock";
  const std::string needed = ours ? "/../../../client/node/dist/index.mjs" : "/node_modules/" + library.system;
  return std::filesystem::exists(Folder() + needed) ? "" : library.name + remedy;
}

// The program, which the others than Node.js's must find or build first.
std::vector<std::string> Program(const Library& library) {
  if (library.language == "node") return {"node", Folder() + "/peer.mjs"};
  return {"bash", Folder() + "/" + library.language + ".sh"};
}

double WarmSeconds(const Size& size) {
  return size.smoke ? size.warm_seconds : std::max(size.warm_seconds, kWarmSeconds);
}

std::string Joined(const std::vector<std::chrono::milliseconds>& pauses) {
  std::string text;
  for (const auto pause : pauses) text += (text.empty() ? "" : ",") + std::to_string(pause.count());
  return text;
}

std::string ServersOf(const Lab& lab) {
  std::string text;
  for (const int port : lab.ports()) text += (text.empty() ? "" : ",") + ("redis://127.0.0.1:" + std::to_string(port));
  return text;
}

std::vector<std::string> Arguments(const Lab& lab, const Library& library, PeerWork work, size_t callers) {
  const Size& size = lab.size();
  std::vector<std::string> args = Program(library);
  const auto add = [&args](std::initializer_list<std::string> more) { args.insert(args.end(), more); };
  std::string broker = lab.broker(0).target();
  add({"--system", library.system, "--broker", broker, "--redis"});
  args.push_back(lab.setup().clients_on_tcp || lab.ports().size() > 1 ? ServersOf(lab) : lab.unix_path());
  switch (work) {
    case PeerWork::kPairs:
      add({"--work", "pairs", "--callers", std::to_string(callers), "--seconds", std::to_string(size.seconds), "--warm",
           std::to_string(WarmSeconds(size))});
      break;
    case PeerWork::kHandoff:
      add({"--work", "handoff", "--pauses", Joined(IdlePauses(size))});
      break;
    case PeerWork::kQueue:
      add({"--work", "queue", "--runs", std::to_string(size.queue_runs), "--waiters", std::to_string(kQueueWaiters),
           "--hold", std::to_string(kQueueHold.count())});
      break;
  }
  return args;
}

// Parses the program's output, whose last line is JSON if all went well.
Sample Parse(std::string output, const std::string& tail) {
  Sample sample;
  while (!output.empty() && output.back() == '\n') output.pop_back();
  const size_t line = output.rfind('\n');
  const json answer = json::parse(line == std::string::npos ? output : output.substr(line + 1), nullptr, false);
  if (!answer.is_object() || !(answer.contains("values") || answer.contains("error"))) {
    sample.not_run = "it did not answer; its last words: " + tail;
    return sample;
  }
  if (answer.contains("error")) {
    sample.not_run = answer["error"].get<std::string>();
    return sample;
  }
  for (const auto& [column, value] : answer["values"].items()) {
    // JSON has no infinity and no NaN: they arrive as null.
    if (value.is_number()) sample.values[column] = value.get<double>();
  }
  return sample;
}

}  // namespace

const std::vector<Library>& Libraries() {
  static const std::vector<Library> libraries{
      {"redis-semaphore", "node", "redis-semaphore", false, "", true},
      {"redlock", "node", "redlock", false, "", true},
      {"distlock for Node.js", "node", "distlock", false, "redis-semaphore"},
      {"redis-py", "python", "redis-py", false, ""},
      {"distlock for Python, threads", "python", "distlock", false, "redis-py"},
      {"distlock for Python, asyncio", "python", "distlock-asyncio", true, "redis-py"},
      {"redsync", "go", "redsync", false, "", true},
      {"distlock for Go", "go", "distlock", false, "redsync"},
  };
  return libraries;
}

Sample LibraryPeer(const Lab& lab, const Library& library, PeerWork work, size_t callers) {
  Sample sample;
  sample.not_run = Missing(library);
  if (!sample.not_run.empty()) return sample;
  const std::string log = lab.folder() + "/peer.log";
  std::filesystem::remove(log);
  Child child(Arguments(lab, library, work, callers), log);
  const auto length = std::chrono::seconds(static_cast<int64_t>(lab.size().seconds + WarmSeconds(lab.size())));
  if (!child.Wait(length + kPatience)) {
    sample.not_run = "it did not end in time";
    return sample;
  }
  return Parse(child.Log(), child.LogTail());
}

std::string LibraryVersions() {
  std::string text;
  const auto add = [&text](const std::string& name, const std::string& version) {
    if (!version.empty()) text += (text.empty() ? "" : ", ") + name + " " + version;
  };
  const json wanted = ReadJson(Folder() + "/package.json");
  const json dependencies = wanted.is_object() ? wanted.value("dependencies", json::object()) : json::object();
  for (const auto& [name, version] : dependencies.items()) {
    const json package = ReadJson(Folder() + "/node_modules/" + name + "/package.json");
    if (package.is_object()) add(name, package.value("version", ""));
  }
  add("redis-py", WordBehind(Folder() + "/../../python/tools.sh", " redis=="));
  if (HasProgram("go")) add("redsync", WordBehind(Folder() + "/go/go.mod", "go-redsync/redsync/v4 v"));
  return text;
}

}  // namespace distlock::bench
