// SPDX-License-Identifier: Apache-2.0
#include "redis/mischief.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>

#include "redis/asked_by.h"
#include "redis/known_clock.h"
#include "redis/mischief_choices.h"
#include "redis/reply_text.h"
#include "store/redis/script_caller.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using store::Cat;

constexpr std::string_view kDeeds[] = {
    "acquire",       "renew",      "release",   "withdraw",   "tend",      "inspect", "vote",   "broken call",
    "snippet",       "put string", "put other", "put waiter", "put entry", "remove",  "expire", "flush scripts",
    "load scripts",  "flush all",  "listen",    "unlisten",   "hang",      "publish", "memory", "replica",
    "want replicas", "clock",      "to expiry", "compare",    "scan",      "prepare"};
static_assert(std::size(kDeeds) == static_cast<size_t>(Deed::kCount));

template <typename T, size_t N>
const T& Pick(const T (&choices)[N], size_t index) {
  return choices[index % N];
}

std::string BrokerId(size_t broker) { return "000000000000000" + Cat(broker + 1); }

store::LockOptions OptionsOf(size_t broker) {
  constexpr int64_t kSlotMs[] = {30'000, 5'000, 50};
  store::LockOptions options;
  options.broker_id = BrokerId(broker);
  options.queue_slot = milliseconds(kSlotMs[broker]);
  options.max_waiters = broker == 1 ? 2 : 10'000;
  options.counts_listeners = broker != 2;
  return options;
}

}  // namespace

std::string ActionText(const Action& action) {
  return Cat(kDeeds[static_cast<size_t>(action.deed)], " lock ", action.lock, " who ", action.who, " broker ",
             action.broker, " (", action.a, ", ", action.b, ", ", action.c, ")");
}

Mischief::Mischief(Twins* twins)
    : twins_(twins),
      locks_{core::LockName::Encode("default", "k"), core::LockName::Encode("n", "a{}%/\n"),
             core::LockName::Encode("default", "kk")} {
  for (size_t i = 0; i < kBrokers; ++i) {
    brokers_.emplace_back(OptionsOf(i), KnownClock());
    voters_.emplace_back(OptionsOf(i));
  }
}

void Mischief::Do(const Action& action) {
  if (action.deed <= Deed::kInspect) return RunBytes(CallBytes(action, action.deed));
  if (DoToServer(action)) return;
  switch (action.deed) {
    case Deed::kVote:
      return RunBytes(VoteBytes(action));
    case Deed::kBrokenCall:
      return RunBroken(action);
    case Deed::kPutString:
      return PutString(action);
    case Deed::kPutOther:
      return PutOther(action);
    case Deed::kPutWaiter:
      return PutWaiter(action);
    case Deed::kPutEntry:
      return PutEntry(action);
    case Deed::kRemove:
      return Remove(action);
    case Deed::kExpire:
      return Run({"PEXPIRE", Key(action, action.a), Pick(kExpiries, action.b)});
    case Deed::kSnippet:
      return Run({"EVAL", Pick(kSnippets, action.a), "3", Key(action, action.b), Key(action, 0), Key(action, 2), "5"});
    default:
      return MoveClock(action);
  }
}

// Strikes the server as a whole, its connections and its data.
bool Mischief::DoToServer(const Action& action) {
  const int listener = action.broker % kBrokers;
  // Mostly its own, so that now and then several hear the same.
  const size_t heard = action.b % 3 == 2 ? action.c : action.broker;
  const std::string channel = brokers_[heard % kBrokers].grant_channel();
  switch (action.deed) {
    case Deed::kFlushScripts:
      if (action.a % 4 == 1) Run({"SCRIPT", "FLUSH"});
      break;
    case Deed::kLoadScripts:
      LoadScripts();
      break;
    case Deed::kFlushAll:
      Run({"FLUSHALL"});
      break;
    case Deed::kListen:
      twins_->Listen(listener, channel);
      break;
    case Deed::kUnlisten:
      twins_->Unlisten(listener, channel);
      break;
    case Deed::kHang:
      twins_->Hang(listener);
      break;
    case Deed::kPublish:
      Run({"PUBLISH", channel, Pick(kInfos, action.a)});
      break;
    case Deed::kMemory:
      twins_->LimitMemory(action.a % 4 == 1);
      break;
    case Deed::kReplica:
      twins_->SetReplica(action.a % 4 == 1);
      break;
    case Deed::kWantReplicas:
      twins_->WantReplicas(action.a % 4 == 1);
      break;
    case Deed::kCompare:
      twins_->CompareData();
      break;
    case Deed::kScan:
      twins_->CompareScan(Pick(kPatterns, action.a));
      break;
    case Deed::kToExpiry:
      MoveToExpiry(action);
      break;
    case Deed::kPrepare:
      twins_->Prepare(action.a);
      break;
    default:
      return false;
  }
  return true;
}

core::OwnerId Mischief::Owner(const Action& action) const {
  core::OwnerId owner{};
  owner.back() = static_cast<uint8_t>(action.who % kOwners + 1);
  return owner;
}

core::OwnerId Mischief::Holder(const Action& action, const core::LockName& lock) const {
  const std::string key = brokers_[0].keys().Holder(lock);
  const auto value = twins_->model().String(key);
  const auto parts = store::Split(value.value_or(""), ";");
  std::vector<core::OwnerId> held;
  if (parts.size() > 1) {
    if (const auto owner = store::ParseOwner(parts[1])) held.push_back(*owner);
  }
  for (const auto& [field, slot] : twins_->model().Hash(key)) {
    if (const auto owner = store::ParseOwner(field)) held.push_back(*owner);
  }
  return held.empty() || action.c % 4 == 0 ? Owner(action) : held[action.b % held.size()];
}

uint64_t Mischief::Token(const Action& action, const core::LockName& lock) const {
  const auto value = twins_->model().String(brokers_[0].keys().Holder(lock));
  const auto parts = store::Split(value.value_or(""), ";");
  uint64_t token = 0;
  if (parts.size() > 2 && action.b % 3 != 0) {
    std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), token);
    if (action.b % 9 == 1) ++token;
  }
  return token;
}

std::string Mischief::Key(const Action& action, uint8_t which) const {
  const store::Keys& keys = brokers_[0].keys();
  std::string holder = keys.Holder(Lock(action));
  switch (which % 5) {
    case 0:
      return holder;
    case 1:
      return keys.Token(Lock(action));
    case 2:
      return keys.Queue(Lock(action));
    case 3:
      return keys.Waiters(Lock(action));
    default:
      return Cat(std::string_view(holder).substr(0, holder.size() - 1), "b:", BrokerId(action.broker % kBrokers));
  }
}

// Readers and writers on one lock, permits on another, all on the third.
core::Want Mischief::Want(const Action& action) const {
  core::Want want{.policy = static_cast<core::Policy>(action.c % 4)};
  const int which = action.lock % kLocks == 2 ? action.b % 3 : action.lock % kLocks == 1 ? 2 : action.b % 2;
  want.mode = static_cast<core::Mode>(which);
  if (want.mode == core::Mode::kPermit) {
    want.limit = action.c % 8 == 7 ? 2 : 3;
    want.permits = static_cast<uint32_t>(1 + action.a % want.limit);
  }
  return want;
}

core::StoreCommand Mischief::Command(const Action& action, Deed verb) const {
  const core::LockName& lock = Lock(action);
  if (verb == Deed::kAcquire) {
    core::StoreAcquire acquire{.name = lock, .owner = Owner(action), .wait = action.a % 4 != 0};
    acquire.ttl = milliseconds(Pick(kTtlMs, action.b));
    acquire.lock_delay = milliseconds(Pick(kDelayMs, action.c));
    acquire.max_hold = milliseconds(Pick(kDelayMs, action.a + action.b));
    acquire.min_hold = milliseconds(Pick(kDelayMs, action.b + action.c));
    if (action.a % 5 == 0) {
      acquire.run_before = core::Instant(microseconds(twins_->model().now_us() + Pick(kLateByUs, action.b + action.c)));
    }
    acquire.info = Pick(kInfos, action.b);
    acquire.want = Want(action);
    return acquire;
  }
  if (verb == Deed::kRenew) {
    core::StoreRenew renew;
    for (size_t i = 0; i <= action.a % 4u; ++i) {
      const core::LockName& one = locks_[(action.lock + i) % kLocks];
      renew.items.push_back({.name = one, .owner = Holder(action, one), .token = Token(action, one)});
      renew.items.back().ttl = milliseconds(Pick(kTtlMs, action.b + i));
      renew.items.back().ours = action.c % 3 == 1;
      if (action.c % 3 == 0)
        renew.items.back().hold_until.us = twins_->model().now_us() + Pick(kLateByUs, action.c + i);
    }
    return renew;
  }
  if (verb == Deed::kRelease) {
    return core::StoreRelease{.name = lock,
                              .owner = Holder(action, lock),
                              .token = Token(action, lock),
                              .block = milliseconds(Pick(kBlockMs, action.a)),
                              .ends_min_hold = action.b % 2 == 0};
  }
  if (verb == Deed::kWithdraw) {
    const core::OwnerId owner = action.a % 2 == 0 ? Owner(action) : Holder(action, lock);
    core::StoreWithdraw withdraw{.name = lock, .owner = owner, .keep_grant = action.b % 2 == 0};
    if (action.c % 3 == 0) withdraw.run_before = core::Instant(microseconds(twins_->model().now_us() + 1));
    return withdraw;
  }
  core::StoreTend tend{.name = lock, .asked = {action.a % 4 == 0 ? Owner(action) : Holder(action, lock)}};
  for (const auto& [member, score] : twins_->model().Zset(brokers_[0].keys().Queue(lock))) {
    const auto owner = store::ParseOwner(member);
    if (owner && action.a % 3 != 0) tend.asked.push_back(*owner);
  }
  return tend;
}

std::string Mischief::LeaseBytes(const Action& action, Deed verb) const {
  Action neighbour = action;
  ++neighbour.lock, ++neighbour.who, ++neighbour.b;
  std::vector<core::StoreCommand> both = {Command(action, verb),
                                          Command(neighbour, action.b % 2 == 0 ? Deed::kAcquire : Deed::kRelease)};
  const bool blocks = std::any_of(both.begin(), both.end(), [](const core::StoreCommand& command) {
    const auto* release = std::get_if<core::StoreRelease>(&command);
    return release != nullptr && (release->block > core::Duration::zero() || release->ends_min_hold);
  });
  return action.c % 2 == 0 || blocks ? Broker(action).Encode(both[0]).bytes : Broker(action).EncodeBatch(both).bytes;
}

std::string Mischief::CallBytes(const Action& action, Deed verb) const {
  if (verb == Deed::kAcquire || verb == Deed::kRelease) return LeaseBytes(action, verb);
  if (verb == Deed::kInspect) return Broker(action).EncodeInspect(Lock(action), action.a % 4u);
  return Broker(action).Encode(Command(action, verb)).bytes;
}

std::string Mischief::VoteBytes(const Action& action) const {
  namespace ballot = store::ballot;
  const core::LockName& lock = Lock(action);
  const auto now = static_cast<uint64_t>(twins_->model().now_us()), least = action.c % 3 == 0 ? now + 50 : now - 50;
  ballot::Spec spec{.name = lock,
                    .owner = action.b % 2 == 0 && action.a % 6 > 2 ? Owner(action) : Holder(action, lock),
                    .want = Want(action),
                    .ttl = milliseconds(Pick(kTtlMs, action.b)),
                    .lock_delay = milliseconds(Pick(kDelayMs, action.c)),
                    .min_hold = milliseconds(Pick(kDelayMs, action.a + action.c)),
                    .info = std::string(Pick(kInfos, action.b)),
                    .place = Pick(kPlaces, action.c + action.b),
                    .mark = Pick(kMarks, action.c).last};
  const core::Instant run_before(microseconds(twins_->model().now_us() + Pick(kLateByUs, action.b + action.c)));
  const uint64_t token = Token(action, lock);
  ballot::Marks marks = action.b % 3 == 0 ? ballot::Marks::Of(spec.mark) : Pick(kMarks, action.a + action.c);
  size_t broker = action.broker % kBrokers;
  const auto asked = AskedBy(twins_->model(), brokers_[0].keys().Holder(lock), spec.owner);
  if (asked && action.a % 6 < 4 && action.broker % 4 != 0) {
    marks = ballot::Marks::Of(asked->number);
    for (size_t i = 0; i < kBrokers; ++i) broker = asked->broker_id == BrokerId(i) ? i : broker;
  }
  ballot::NodeCommand command;
  switch (action.a % 6) {
    case 0:
      command =
          ballot::ConfirmVote{lock, spec.owner, marks, action.c % 2 == 0 ? token : now, spec.ttl + spec.lock_delay};
      break;
    case 1:
      command = ballot::JoinGrant{spec, action.c % 2 == 0 ? token : now, action.b % 4 == 0 ? now : token, run_before};
      break;
    case 2:
      command = ballot::YieldVote{spec, token, action.c % 3 != 0, least, marks};
      break;
    case 3:
      command = ballot::ReleaseNamed{
          lock, spec.owner, token, marks, milliseconds(Pick(kBlockMs, action.b)), action.a % 2 == 0, action.c % 4 == 0,
          least};
      break;
    default:
      command = ballot::AskVote{spec,
                                action.c % 5 == 0 ? run_before : core::kNever,
                                action.c % 4 != 0,
                                action.b % 4 == 0,
                                least,
                                marks,
                                action.c % 3 == 0 ? token : 0};
  }
  return voters_[broker].Encode(command, KnownClock(), action.c % 2 == 0).bytes;
}

void Mischief::RunBytes(std::string_view bytes) { twins_->Do(ParseCommand(bytes)); }

void Mischief::RunBroken(const Action& action) {
  const std::string bytes = CallBytes(action, static_cast<Deed>(action.a % 6));
  std::string_view left = bytes;
  Argv argv = ParseCommand(left);
  const size_t first = 2;  // EVALSHA and the script stay
  const size_t at = first + action.b % (argv.size() - first);
  if (action.c % 3 == 0) {
    argv.resize(std::max(first + 1, at));
  } else {
    argv[at] = Pick(kBadWords, action.c);
  }
  twins_->Do(argv);
}

void Mischief::PutString(const Action& action) {
  const std::string key = Key(action, action.a);
  if (action.c % 3 == 0) return Run({"SET", key, Pick(kStrings, action.b)});
  Run({"SET", key, Pick(kStrings, action.b), "PX", action.c % 3 == 1 ? "50" : "100000"});
}

void Mischief::PutOther(const Action& action) {
  const std::string key = Key(action, action.a);
  if (action.c % 2 == 0) Run({"DEL", key});
  constexpr std::string_view kAdders[] = {"LPUSH", "SADD"};
  if (action.b % 4 < 2) return Run({Pick(kAdders, action.b), key, "junk"});
  if (action.b % 4 == 2) return Run({"ZADD", key, "1", "junk"});
  Run({"HSET", key, Pick(kFields, action.c), Pick(kValues, action.b / 4 + action.c)});
}

void Mischief::PutWaiter(const Action& action) {
  const std::string member = action.c % 4 == 0 ? "junk" : store::HexOfOwner(Owner(action));
  Run({"ZADD", Key(action, 2), Pick(kScores, action.a), member});
}

void Mischief::PutEntry(const Action& action) {
  const std::string broker = action.c % 4 == 0 ? "zz" : BrokerId(action.broker % kBrokers);
  Run({"HSET", Key(action, 3), store::HexOfOwner(Owner(action)), Cat(broker, Pick(kEntryEnds, action.a))});
}

void Mischief::Remove(const Action& action) {
  const size_t which = action.a % 7;
  if (which == 5) return Run({"HDEL", Key(action, 3), store::HexOfOwner(Owner(action))});
  if (which == 6) return Run({"ZREM", Key(action, 2), store::HexOfOwner(Owner(action))});
  Run({"DEL", Key(action, action.a)});
}

void Mischief::LoadScripts() {
  for (const lua::ScriptSource* script : store::AllScripts()) Run({"SCRIPT", "LOAD", script->body});
  for (const lua::ScriptSource* script : store::RedlockScripts()) Run({"SCRIPT", "LOAD", script->body});
}

void Mischief::MoveClock(const Action& action) { twins_->MoveClock(Pick(kStepsUs, action.a)); }

// To the boundary of the earliest expiry: the last microsecond of the key, or the first without it.
void Mischief::MoveToExpiry(const Action& action) {
  RedisModel& model = twins_->model();
  const auto next = model.NextExpiry();
  constexpr int64_t kFarthestUs = 100'000'000'000;
  if (!next || *next - model.now_us() > kFarthestUs) return;
  twins_->MoveClock(*next - model.now_us() - (action.a % 2 == 0 ? 0 : 1));
}

}  // namespace distlock::sim
