// SPDX-License-Identifier: Apache-2.0
#include "simulation/looker.h"

#include <algorithm>
#include <charconv>

#include "contract/to_proto.h"

namespace distlock::sim {
namespace {

constexpr Duration kStoreTimeout = seconds(5);  // as contract::Limits has it
constexpr Duration kPatience = seconds(8);
constexpr int kMostPages = 20;
constexpr size_t kRecordsBack = 300;

// The label of a client, in which lease numbers are: "lease 17".
int64_t LeaseIn(const std::string& info) {
  constexpr std::string_view kWord = "lease ";
  const size_t at = info.rfind(kWord);
  int64_t lease = -1;
  if (at != std::string::npos) std::from_chars(info.data() + at + kWord.size(), info.data() + info.size(), lease);
  return lease;
}

}  // namespace

Looker::Looker(Env& env, int number, std::vector<std::unique_ptr<BrokerProcess>>& brokers)
    : Process(env, Actor::Kind::kClient, "looker " + std::to_string(number)), brokers_(brokers) {}

void Looker::Start() {
  Live();
  AskLater();
}

// Often again at once, so that the questions cross what happens.
void Looker::AskLater() {
  const Duration most = !env_.acting            ? seconds(4)
                        : env_.dice.Chance(0.4) ? milliseconds(2)
                                                : 2 * env_.temper.look_every;
  PostAfter(env_.dice.Between(Duration(0), most), [this] { Ask(); });
}

void Looker::Ask() {
  if (left_) return;
  broker_ = env_.dice.Pick(brokers_).get();
  if (!broker_->alive()) return AskLater();
  const uint64_t question = ++question_;
  wire_ = Wire::Connect(env_, *this, *broker_);
  wire_->on_closed[Wire::kClient] = [this, question] {
    if (question == question_) Over();
  };
  PostAfter(kPatience, [this, question] {
    if (question == question_) Over();
  });
  look_ = {.actor = broker_->actor(), .asked_ns = env_.now_ns()};
  const int kind = env_.dice.Roll(5);
  if (kind < 4) return AskAboutLock(kind < 2);
  look_.kind = Look::Kind::kList;
  pages_ = 0;
  page_size_ = static_cast<uint32_t>(1 + env_.dice.Roll(4));
  AskForPage("");
}

void Looker::Over() {
  ++question_;
  if (wire_ != nullptr) std::exchange(wire_, nullptr)->Close(Wire::kClient);
  AskLater();
}

void Looker::Send(std::function<void(store::StoreReader&, Tell)> say) {
  wire_->Send(Wire::kClient, [this, broker = broker_, wire = wire_, question = question_, say = std::move(say)] {
    const Tell tell = [this, broker, life = broker->life(), wire, question](std::function<void()> hear) {
      if (broker->life() != life) return;
      wire->Send(Wire::kServer, [this, question, hear = std::move(hear)] {
        if (question == question_) hear();
      });
    };
    broker->Look([tell, say](store::StoreReader& store) { say(store, tell); });
  });
}

void Looker::AskAboutLock(bool token) {
  look_.lock = env_.dice.Roll(env_.temper.locks);
  if (token) {
    look_.kind = Look::Kind::kToken;
    look_.token = SomeToken(look_.lock);
  }
  const core::LockName name = core::LockName::Encode("default", env_.history.locks[static_cast<size_t>(look_.lock)]);
  Send([this, name](store::StoreReader& store, const Tell& tell) {
    store.Inspect(name, 10, kStoreTimeout, [this, tell, name](absl::StatusOr<core::LockView> view) {
      if (view.ok()) view->name = name;
      tell([this, view = std::move(view)] {
        if (view.ok()) OnLock(*view);
        Over();
      });
    });
  });
}

// One that a client was granted lately: mostly the last one.
uint64_t Looker::SomeToken(int32_t lock) {
  const std::vector<Record>& records = env_.history.records;
  int back = env_.dice.Chance(0.7) ? 0 : 1 + env_.dice.Roll(2);
  const size_t least = records.size() > kRecordsBack ? records.size() - kRecordsBack : 0;
  for (size_t i = records.size(); i > least; --i) {
    const Record& record = records[i - 1];
    if (record.kind == RecordKind::kGranted && record.lock == lock && back-- == 0) return record.token;
  }
  return 1;
}

void Looker::OnLock(const core::LockView& view) {
  Look shown = Shown(view, look_.asked_ns);
  if (look_.kind == Look::Kind::kToken) {
    look_.newest_token = shown.newest_token;
    look_.newest = look_.newest_token == look_.token;
    shown = look_;
  }
  env_.Log([&] {
    std::string text = "  " + name() + " is shown by " + broker_->name() + ": newest token " +
                       std::to_string(shown.newest_token) + " of " + view.name.escaped();
    for (const Look::Holder& one : shown.holders) text += ", held by lease " + std::to_string(one.lease);
    return text;
  });
  env_.Note(std::move(shown));
}

Look Looker::Shown(const core::LockView& view, int64_t asked_ns) const {
  const v1::LockInfo lock = contract::LockOf(view);
  Look look{.kind = Look::Kind::kLock,
            .actor = look_.actor,
            .lock = LockOf(view.name),
            .asked_ns = asked_ns,
            .newest_token = static_cast<uint64_t>(lock.fencing_token()),
            .holder_count = lock.holder_count()};
  int next = 0;
  for (const core::HolderView& holder : view.holders) {
    if (holder.owner == core::OwnerId{}) continue;  // a block
    if (next == lock.holders_size()) break;
    look.holders.push_back({LeaseIn(holder.info), static_cast<uint64_t>(lock.holders(next++).fencing_token())});
  }
  std::ranges::sort(look.holders, {}, &Look::Holder::token);
  return look;
}

int32_t Looker::LockOf(const core::LockName& name) const {
  const auto& locks = env_.history.locks;
  return static_cast<int32_t>(std::ranges::find(locks, name.Decode().second) - locks.begin());
}

// ---- ListLocks ----

void Looker::AskForPage(const std::string& from) {
  Send([this, from, size = page_size_, asked_ns = env_.now_ns()](store::StoreReader& store, const Tell& tell) {
    store.List("default", "", size, from, kStoreTimeout, [this, tell, asked_ns](absl::StatusOr<store::LockPage> page) {
      tell([this, asked_ns, page = std::move(page)] { page.ok() ? OnPage(*page, asked_ns) : Over(); });
    });
  });
}

void Looker::OnPage(const store::LockPage& page, int64_t asked_ns) {
  for (const core::LockView& view : page.locks) {
    look_.listed.push_back(LockOf(view.name));
    env_.Note(Shown(view, asked_ns));
  }
  env_.Log([&] { return "  " + name() + " is shown " + std::to_string(page.locks.size()) + " locks in a page"; });
  if (!page.next_page_token.empty() && ++pages_ < kMostPages) return AskForPage(page.next_page_token);
  if (page.next_page_token.empty()) env_.Note(look_);
  Over();
}

}  // namespace distlock::sim
