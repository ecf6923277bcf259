// SPDX-License-Identifier: Apache-2.0
#include "store/sentinel/sentinel_store.h"

#include <algorithm>
#include <utility>

#include "store/sentinel/sentinel_fitness.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr uint64_t kSeedStep = 1000;  // so that no two links of a store share their jitter

}  // namespace

SentinelStore::SentinelStore(const Network& network, const Network& sentinels, const StoreOptions& options)
    : options_(options),
      sentinel_network_(sentinels),
      view_({.configured = options.url.sentinels, .few_suffice = options.few_sentinels_suffice}),
      timer_(sentinels.timers->Make([this] {
        ended_.clear();
        Step(SentinelView::Tick{});
        TellWhyNotReady();
      })),
      node_(network, std::nullopt, NodeOptions(), this) {}

StoreOptions SentinelStore::NodeOptions() {
  StoreOptions options = options_;
  if (options.on_node_status) {
    options.on_node_status = [this](const NodeStatus& status) {
      NodeStatus of_primary = status;
      if (primary_) of_primary.address = primary_->Text();
      of_primary.epoch = epoch_;
      options_.on_node_status(of_primary);
    };
  }
  return options;
}

void SentinelStore::Start(StoreListener* listener) {
  listener_ = listener;
  node_.Start();
  Step(SentinelView::Tick{});
}

void SentinelStore::Stop() {
  listener_ = nullptr;
  timer_->Stop();
  for (auto& [id, peer] : peers_) peer.link->Stop();
  node_.Stop();
}

// ---- The view ----

void SentinelStore::Step(const SentinelView::Input& input) {
  if (listener_ == nullptr) return;
  std::vector<SentinelView::Effect> effects;
  view_.Step(sentinel_network_.timers->Now(), input, effects);
  for (const auto& effect : effects) Perform(effect);
  SetTimer();
}

void SentinelStore::SetTimer() {
  const core::Instant due = view_.NextDeadline();
  if (!ended_.empty()) return timer_->Start(core::Duration::zero());
  if (due == core::kNever) return timer_->Stop();
  timer_->Start(std::max(core::Duration::zero(), due - sentinel_network_.timers->Now()));
}

void SentinelStore::Perform(const SentinelView::Effect& effect) {
  if (const auto* dial = std::get_if<SentinelView::Dial>(&effect)) {
    Dial(*dial);
  } else if (const auto* drop = std::get_if<SentinelView::Drop>(&effect)) {
    Drop(drop->id);
  } else if (const auto* ask = std::get_if<SentinelView::Ask>(&effect)) {
    peers_.at(ask->id).link->Ask();
  } else if (const auto* primary = std::get_if<SentinelView::PrimaryAt>(&effect)) {
    Follow(*primary);
  } else if (const auto* warn = std::get_if<SentinelView::Warn>(&effect)) {
    Warn(warn->text);
  } else if (const auto* wrong = std::get_if<SentinelView::WrongName>(&effect)) {
    TellWrongName(wrong->known);
  }
}

void SentinelStore::Dial(const SentinelView::Dial& dial) {
  LinkOptions link{.address = dial.address,
                   .credentials = options_.sentinel_credentials,
                   .connect_timeout = options_.connect_timeout,
                   .seed = (options_.seed + 1) * kSeedStep + static_cast<uint64_t>(dial.id)};
  Peer& peer = peers_[dial.id];
  peer.address = dial.address;
  peer.cause = "not connected yet";
  peer.link = std::make_unique<SentinelLink>(sentinel_network_, dial.id, std::move(link), options_.url.primary_name,
                                             static_cast<SentinelLink::Owner*>(this));
  peer.link->Start();
}

void SentinelStore::Drop(SentinelId id) {
  const auto found = peers_.find(id);
  found->second.link->Stop();
  ended_.push_back(std::move(found->second.link));
  peers_.erase(found);
}

void SentinelStore::Follow(const SentinelView::PrimaryAt& primary) {
  unfit_.reset();
  if (primary_ == primary.address) {
    epoch_ = primary.epoch;
    return node_.Hurry();
  }
  const auto by = peers_.find(primary.by);
  const absl::Status fit = by == peers_.end() ? absl::OkStatus() : Judge(by->second.facts);
  if (listener_ == nullptr) return;  // whoever heard of the problem has stopped the store
  // A failover may be just over. A broker that follows a primary must follow the next one now; one that starts can
  // wait.
  if (absl::IsUnavailable(fit) && !primary_) {
    unfit_ = primary;
    by->second.link->AskForReplicas();
    return TellWhyNotReady();
  }
  if (primary_) Warn(Cat("the primary is ", primary.address.Text(), " now, by epoch ", primary.epoch));
  primary_ = primary.address;
  epoch_ = primary.epoch;
  node_.MoveTo(primary.address);
}

absl::Status SentinelStore::Judge(const SetFacts& facts) {
  const Fitness fitness = JudgeSet(facts, {.primary_name = options_.url.primary_name,
                                           .usual_ttl = options_.usual_ttl,
                                           .wait_replicas = options_.wait_replicas});
  std::string text(fitness.status.message());
  const bool is_new = std::exchange(told_unfit_, text) != text;
  const bool at_start = absl::IsUnavailable(fitness.status) && !primary_;  // Unsettled tells it
  if (!fitness.status.ok() && is_new && !at_start) Report(fitness.status);
  if (fitness.status.ok() || is_new) {
    for (const std::string& warning : fitness.warnings) Warn(warning);
  }
  return fitness.status;
}

// ---- The sentinels ----

void SentinelStore::OnSentinelUp(SentinelId id) {
  Peer& peer = peers_.at(id);
  peer.cause.clear();
  peer.reported.clear();
  Step(SentinelView::Up{id});
}

void SentinelStore::OnSentinelDown(SentinelId id, const absl::Status& why) {
  Peer& peer = peers_.at(id);
  peer.cause = std::string(why.message());
  const std::string text = Cat("sentinel ", peer.address.Text(), ": ", why.message(),
                               absl::IsUnauthenticated(why) ? " for the sentinels (--sentinel-user, "
                                                              "--sentinel-password-file)"
                                                            : "");
  const bool is_new = std::exchange(peer.reported, text) != text;
  if (primary_) {
    // Locks do not need this sentinel now, whatever its trouble is.
    if (is_new) Report(absl::UnavailableError(text));
  } else if (!absl::IsUnavailable(why) && is_new) {
    Report(absl::Status(why.code(), text));
  }
  Step(SentinelView::Down{id});
  TellWhyNotReady();
}

void SentinelStore::OnSentinelReport(SentinelId id, SentinelReport report, SetFacts facts) {
  Peer& peer = peers_.at(id);
  node_.checks().CountServers(facts.replica_count + 1);
  if (!facts.replicas) facts.replicas = std::move(peer.facts.replicas);
  peer.facts = std::move(facts);
  peer.cause.clear();
  const SentinelView::Choice shown{report.primary, report.epoch};
  Step(SentinelView::Reported{id, std::move(report)});
  if (view_.chosen() == shown && primary_ == shown.address) node_.commands().OnNamed(view_.ShownByMajoritySince());
  if (unfit_ && unfit_->address == shown.address) Follow({.address = shown.address, .epoch = unfit_->epoch, .by = id});
}

void SentinelStore::OnSentinelNames(SentinelId id, std::vector<std::string> known) {
  peers_.at(id).cause = Cat("knows no primary '", options_.url.primary_name, "'");
  Step(SentinelView::NameUnknown{id, std::move(known)});
}

void SentinelStore::OnSentinelMute(SentinelId id, const std::string& why) {
  peers_.at(id).cause = why;
  Step(SentinelView::NoAnswer{id});
}

void SentinelStore::OnSwitchMaster(SentinelId id) { Step(SentinelView::Switched{id}); }

// ---- The primary ----

void SentinelStore::OnNodeInput(core::Input&& input) {
  if (listener_ == nullptr) return;
  const bool down = std::holds_alternative<core::StoreDown>(input);
  listener_->OnStoreInput(std::move(input));
  if (down) Step(SentinelView::PrimaryDoubted{});
}

// ---- For people ----

void SentinelStore::TellWrongName(const std::vector<std::string>& known) {
  Report(absl::NotFoundError(Cat("the sentinels know no primary named '", options_.url.primary_name, "'; ",
                                 known.empty() ? "they watch none" : Cat("the sentinels know: ", Join(known, ", ")))));
}

std::string SentinelStore::WhyNotReady() const {
  if (unfit_) return told_unfit_;
  std::string text = Cat("no primary is known yet: ", view_.answering(), " of ", view_.configured(),
                         " sentinels answer, ", view_.majority(), " must agree");
  for (const auto& [id, peer] : peers_) {
    if (!peer.cause.empty()) Append(text, "; ", peer.address.Text(), ": ", peer.cause);
  }
  return text;
}

void SentinelStore::TellWhyNotReady() {
  if (listener_ == nullptr || primary_) return;
  std::string text = WhyNotReady();
  if (std::exchange(told_why_not_, text) == text) return;
  Report(absl::UnavailableError(text));
  if (listener_ != nullptr) listener_->OnStoreInput(core::StoreDown{std::move(text)});
}

void SentinelStore::Report(const absl::Status& why) {
  if (options_.on_problem)
    options_.on_problem(absl::Status(why.code(), Cat(options_.url.Masked(), ": ", why.message())));
}

void SentinelStore::Warn(const std::string& text) {
  if (options_.on_warning) options_.on_warning(text);
}

}  // namespace distlock::store
