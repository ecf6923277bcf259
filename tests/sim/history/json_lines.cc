// SPDX-License-Identifier: Apache-2.0
#include "history/json_lines.h"

#include <algorithm>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <stdexcept>
#include <utility>

#include "history/names.h"

namespace distlock::sim {
namespace {

using nlohmann::json;
using Names = std::span<const std::string_view>;

// The field that names a record's `code`, and its names.
struct CodeField {
  const char* field = nullptr;
  Names names;
};

CodeField CodeOf(RecordKind kind) {
  switch (kind) {
    case RecordKind::kRefused:
      return {"reason", RefusalNames()};
    case RecordKind::kEnded:
      return {"why", EndedNames()};
    case RecordKind::kReleased:
      return {"outcome", ReleaseNames()};
    case RecordKind::kFreed:
      return {"how", FreedNames()};
    case RecordKind::kFault:
      return {"fault", FaultNames()};
    default:
      return {};
  }
}

// The field that is a record's `value`.
const char* ValueField(RecordKind kind) {
  switch (kind) {
    case RecordKind::kAsked:
      return "max_wait";
    case RecordKind::kQueued:
      return "arrival";
    case RecordKind::kFault:
      return "lasts";
    case RecordKind::kLeft:
      return "count";
    default:
      return nullptr;
  }
}

bool HasToken(RecordKind kind) {
  return kind == RecordKind::kGranted || kind == RecordKind::kTook || kind == RecordKind::kWrote;
}

}  // namespace

// One parsed line; its getters throw its problem.
class HistoryReader::Line {
 public:
  explicit Line(const json& object) : object_(object) {}

  bool Has(const char* field) const { return object_.contains(field); }
  template <typename T>
  T Get(const char* field) const {
    const auto found = object_.find(field);
    if (found == object_.end()) throw std::runtime_error(std::string("has no ") + field);
    return found->get<T>();
  }
  template <typename T>
  T Get(const char* field, T otherwise) const {
    const auto found = object_.find(field);
    return found == object_.end() ? std::move(otherwise) : found->get<T>();
  }
  uint8_t Code(const CodeField& code) const {
    const auto name = Get<std::string>(code.field);
    const auto value = ValueOf(code.names, name);
    if (!value) throw std::runtime_error(std::string(code.field) + " cannot be " + name);
    return *value;
  }

 private:
  const json& object_;
};

bool HistoryReader::Read(std::istream& in, const std::string& name) {
  std::string text;
  int64_t number = 0;
  while (std::getline(in, text)) {
    ++number;
    if (in.eof()) break;
    if (text.empty()) continue;
    try {
      ReadLine(text);
    } catch (const std::exception& error) {
      problem_ = name + ":" + std::to_string(number) + ": " + error.what();
      return false;
    }
  }
  return true;
}

void HistoryReader::ReadLine(const std::string& text) {
  const json object = json::parse(text);
  const Line line(object);
  if (line.Has("run")) {
    const json& run = object.at("run");
    return ReadRun(Line(run));
  }
  if (line.Has("look")) return ReadLook(line);
  const auto kind = line.Get<std::string>("kind");
  if (kind == "died") {
    deaths_.push_back({line.Get<int64_t>("at"), ActorNumber(line.Get<std::string>("actor"), Actor::Kind::kClient)});
    return;
  }
  const auto known = ValueOf(KindNames(), kind);
  if (!known) throw std::runtime_error("kind cannot be " + kind);
  ReadRecord(line, static_cast<RecordKind>(*known));
}

void HistoryReader::ReadRun(const Line& line) {
  has_run_ = true;
  history_.calm = line.Get("calm", false);
  history_.slots_move = line.Get("slots_move", false);
  history_.silent_minority = line.Get("silent_minority", false);
  history_.validity_ns = line.Get<int64_t>("validity");
  history_.longest_ttl_ns = line.Get<int64_t>("longest_ttl");
  history_.slack_ns = line.Get("slack", history_.slack_ns);
  history_.slow_ns = line.Get("slow", history_.slow_ns);
  history_.recovery_ns = line.Get("recovery", history_.recovery_ns);
  history_.give_back_ns = line.Get("give_back", history_.give_back_ns);
}

void HistoryReader::ReadRecord(const Line& line, RecordKind kind) {
  Record record{.at_ns = line.Get<int64_t>("at"), .kind = kind};
  if (line.Has("actor")) {
    const auto actor_kind = ValueOf(ActorKindNames(), line.Get<std::string>("actor_kind", "client"));
    if (!actor_kind) throw std::runtime_error("unknown actor_kind");
    record.actor = ActorNumber(line.Get<std::string>("actor"), static_cast<Actor::Kind>(*actor_kind));
  }
  if (line.Has("lock")) record.lock = Number(locks_, history_.locks, line.Get<std::string>("lock"));
  if (kind < RecordKind::kFault) record.lease = LeaseNumber(line.Get<std::string>("lease"));
  if (const CodeField code = CodeOf(kind); code.field != nullptr) record.code = line.Code(code);
  if (const char* value = ValueField(kind)) record.value = line.Get<int64_t>(value, 0);
  if (HasToken(kind)) record.token = line.Get<uint64_t>("token");
  if (kind == RecordKind::kBelieves) record.until_ns = line.Get<int64_t>("until");
  if (kind == RecordKind::kWrote) record.code = line.Get<bool>("accepted");
  if (kind == RecordKind::kEnded && line.Has("lost")) record.value = line.Code({"lost", LostNames()}) + 1;
  if (kind == RecordKind::kLeft) {
    record.note = static_cast<int32_t>(history_.notes.size());
    history_.notes.push_back(line.Get<std::string>("what"));
  }
  if (kind == RecordKind::kAsked) {
    if (record.lock < 0) throw std::runtime_error("has no lock");
    LeaseTerms& terms = history_.leases[static_cast<size_t>(record.lease)];
    terms.lock = record.lock;
    terms.client = record.actor;
    ReadTerms(line, record.lease);
  }
  history_.records.push_back(record);
}

void HistoryReader::ReadTerms(const Line& line, int64_t lease) {
  LeaseTerms& terms = history_.leases[static_cast<size_t>(lease)];
  terms.ttl_ns = line.Get<int64_t>("ttl");
  terms.lock_delay_ns = line.Get<int64_t>("lock_delay", 0);
  terms.max_hold_ns = line.Get<int64_t>("max_hold", 0);
  terms.min_hold_ns = line.Get<int64_t>("min_hold", 0);
  terms.detached = line.Get("detached", false);
  terms.risky = line.Get("risky", false);
  terms.freed_by_promise = line.Get("freed_by_promise", false);
}

void HistoryReader::ReadLook(const Line& line) {
  const auto kind = ValueOf(LookNames(), line.Get<std::string>("look"));
  if (!kind) throw std::runtime_error("unknown look");
  Look look{.kind = static_cast<Look::Kind>(*kind),
            .asked_ns = line.Get<int64_t>("asked"),
            .told_ns = line.Get<int64_t>("told"),
            .token = line.Get<uint64_t>("token", 0),
            .newest = line.Get("newest", false),
            .newest_token = line.Get<uint64_t>("newest_token", 0),
            .holder_count = line.Get<int64_t>("holder_count", 0)};
  if (line.Has("actor")) look.actor = ActorNumber(line.Get<std::string>("actor"), Actor::Kind::kBroker);
  if (line.Has("lock")) look.lock = Number(locks_, history_.locks, line.Get<std::string>("lock"));
  for (const auto& [lease, token] : line.Get<std::vector<std::pair<std::string, uint64_t>>>("holders", {})) {
    look.holders.push_back({LeaseNumber(lease), token});
  }
  for (const std::string& name : line.Get<std::vector<std::string>>("listed", {})) {
    look.listed.push_back(Number(locks_, history_.locks, name));
  }
  history_.looks.push_back(std::move(look));
}

int32_t HistoryReader::Number(std::map<std::string, int32_t, std::less<>>& numbers, std::vector<std::string>& names,
                              const std::string& name) {
  const auto [found, fresh] = numbers.emplace(name, static_cast<int32_t>(names.size()));
  if (fresh) names.push_back(name);
  return found->second;
}

int32_t HistoryReader::ActorNumber(const std::string& name, Actor::Kind kind) {
  const auto [found, fresh] = actors_.emplace(name, static_cast<int32_t>(history_.actors.size()));
  if (fresh) history_.actors.push_back({kind, name});
  return found->second;
}

int64_t HistoryReader::LeaseNumber(const std::string& name) {
  const auto [found, fresh] = leases_.emplace(name, static_cast<int64_t>(history_.leases.size()));
  if (fresh) history_.leases.emplace_back();
  return found->second;
}

void HistoryReader::CloseLeasesOf(const Died& died, std::vector<Record>& closed) const {
  enum class State : uint8_t { kNone, kAsking, kHeld };
  std::map<int64_t, State> open;
  for (const Record& record : history_.records) {
    if (record.lease < 0 || record.at_ns > died.at_ns ||
        history_.leases[static_cast<size_t>(record.lease)].client != died.actor) {
      continue;
    }
    switch (record.kind) {
      case RecordKind::kAsked:
        open[record.lease] = State::kAsking;
        break;
      case RecordKind::kGranted:
        open[record.lease] = State::kHeld;
        break;
      case RecordKind::kGaveUp:
      case RecordKind::kRefused:
      case RecordKind::kEnded:
        open.erase(record.lease);
        break;
      default:
        break;
    }
  }
  for (const auto& [lease, state] : open) {
    Record record{.at_ns = died.at_ns, .kind = RecordKind::kGaveUp};
    if (state == State::kHeld) {
      record.kind = RecordKind::kEnded;
      record.code = static_cast<uint8_t>(EndedWhy::kClientDied);
    }
    record.actor = died.actor;
    record.lock = history_.leases[static_cast<size_t>(lease)].lock;
    record.lease = lease;
    closed.push_back(record);
  }
}

History HistoryReader::Take() {
  const auto earlier = [](const Record& a, const Record& b) { return a.at_ns < b.at_ns; };
  std::stable_sort(history_.records.begin(), history_.records.end(), earlier);
  std::vector<Record> closed;
  for (const Died& died : deaths_) CloseLeasesOf(died, closed);
  history_.records.insert(history_.records.end(), closed.begin(), closed.end());
  std::stable_sort(history_.records.begin(), history_.records.end(), earlier);
  std::stable_sort(history_.looks.begin(), history_.looks.end(),
                   [](const Look& a, const Look& b) { return a.told_ns < b.told_ns; });
  // Only the request says which lock its lease is about.
  for (Record& record : history_.records) {
    if (record.lease >= 0) record.lock = history_.leases[static_cast<size_t>(record.lease)].lock;
  }
  return std::move(history_);
}

// ---- Writing ----

namespace {

json TermsOf(const LeaseTerms& terms) {
  json object = {{"ttl", terms.ttl_ns}};
  if (terms.lock_delay_ns != 0) object["lock_delay"] = terms.lock_delay_ns;
  if (terms.max_hold_ns != 0) object["max_hold"] = terms.max_hold_ns;
  if (terms.min_hold_ns != 0) object["min_hold"] = terms.min_hold_ns;
  if (terms.detached) object["detached"] = true;
  if (terms.risky) object["risky"] = true;
  if (terms.freed_by_promise) object["freed_by_promise"] = true;
  return object;
}

json ObjectOf(const History& history, const Record& record) {
  json object = {{"at", record.at_ns}, {"kind", NameOf(KindNames(), static_cast<int64_t>(record.kind))}};
  if (record.actor >= 0) {
    const Actor& actor = history.actors[static_cast<size_t>(record.actor)];
    object["actor"] = actor.name;
    if (actor.kind != Actor::Kind::kClient)
      object["actor_kind"] = NameOf(ActorKindNames(), static_cast<int64_t>(actor.kind));
  }
  if (record.lock >= 0) object["lock"] = history.locks[static_cast<size_t>(record.lock)];
  if (record.lease >= 0) object["lease"] = std::to_string(record.lease);
  if (const CodeField code = CodeOf(record.kind); code.field != nullptr)
    object[code.field] = NameOf(code.names, record.code);
  if (const char* value = ValueField(record.kind)) object[value] = record.value;
  if (HasToken(record.kind)) object["token"] = record.token;
  if (record.kind == RecordKind::kBelieves) object["until"] = record.until_ns;
  if (record.kind == RecordKind::kWrote) object["accepted"] = record.code != 0;
  if (record.kind == RecordKind::kEnded && record.value > 0) object["lost"] = NameOf(LostNames(), record.value - 1);
  if (record.kind == RecordKind::kLeft && record.note >= 0)
    object["what"] = history.notes[static_cast<size_t>(record.note)];
  if (record.kind == RecordKind::kAsked) object.update(TermsOf(history.leases[static_cast<size_t>(record.lease)]));
  return object;
}

json ObjectOf(const History& history, const Look& look) {
  json object = {
      {"look", NameOf(LookNames(), static_cast<int64_t>(look.kind))}, {"asked", look.asked_ns}, {"told", look.told_ns}};
  if (look.actor >= 0) object["actor"] = history.actors[static_cast<size_t>(look.actor)].name;
  if (look.lock >= 0) object["lock"] = history.locks[static_cast<size_t>(look.lock)];
  if (look.kind == Look::Kind::kList) {
    object["listed"] = json::array();
    for (const int32_t lock : look.listed) object["listed"].push_back(history.locks[static_cast<size_t>(lock)]);
    return object;
  }
  object["newest_token"] = look.newest_token;
  if (look.kind == Look::Kind::kToken) {
    object["token"] = look.token;
    object["newest"] = look.newest;
    return object;
  }
  object["holder_count"] = look.holder_count;
  object["holders"] = json::array();
  for (const Look::Holder& one : look.holders) {
    object["holders"].push_back(json::array({std::to_string(one.lease), one.token}));
  }
  return object;
}

}  // namespace

void WriteHistory(const History& history, std::ostream& out) {
  const json run = {{"calm", history.calm},
                    {"slots_move", history.slots_move},
                    {"silent_minority", history.silent_minority},
                    {"validity", history.validity_ns},
                    {"longest_ttl", history.longest_ttl_ns},
                    {"slack", history.slack_ns},
                    {"slow", history.slow_ns},
                    {"recovery", history.recovery_ns},
                    {"give_back", history.give_back_ns}};
  out << json{{"run", run}}.dump() << '\n';
  for (const Record& record : history.records) out << ObjectOf(history, record).dump() << '\n';
  for (const Look& look : history.looks) out << ObjectOf(history, look).dump() << '\n';
}

}  // namespace distlock::sim
