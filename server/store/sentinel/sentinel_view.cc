// SPDX-License-Identifier: Apache-2.0
#include "store/sentinel/sentinel_view.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "store/text.h"

namespace distlock::store {

SentinelView::SentinelView(Settings settings) : settings_(std::move(settings)) {}

void SentinelView::Step(core::Instant now, const Input& input, std::vector<Effect>& effects) {
  if (!std::exchange(begun_, true)) {
    for (const ServerAddress& address : settings_.configured) {
      sentinels_[next_id_].address = address;
      sentinels_[next_id_].configured = true;
      effects.emplace_back(Dial{next_id_++, address});
    }
  }
  now_ = now;
  Handle(now, input, effects);
  ForgetPeers(now, effects);
  if (chosen_) {
    Follow(effects);
    Overrule(now, effects);
  } else {
    ChooseFirst(now, effects);
    CheckName(effects);
  }
  AskDue(now, effects);
}

void SentinelView::Handle(core::Instant now, const Input& input, std::vector<Effect>& effects) {
  if (std::holds_alternative<PrimaryDoubted>(input)) {
    for (auto& [id, one] : sentinels_) one.ask_at = std::min(one.ask_at, std::max(now, one.asked + kAskAgain));
  } else if (const auto* up = std::get_if<Up>(&input)) {
    Sentinel* one = Find(up->id);
    if (one == nullptr) return;
    one->up = true;
    one->asking = false;
    one->ask_at = now;
  } else if (const auto* down = std::get_if<Down>(&input)) {
    Sentinel* one = Find(down->id);
    if (one == nullptr) return;
    if (std::exchange(one->up, false)) one->named_at = now;
    one->asking = false;
    one->report.reset();
    one->knows_no_name = false;
  } else if (const auto* reported = std::get_if<Reported>(&input)) {
    HandleReport(now, *reported, effects);
  } else if (const auto* unknown = std::get_if<NameUnknown>(&input)) {
    Sentinel* one = Find(unknown->id);
    if (one == nullptr) return;
    one->asking = false;
    one->report.reset();
    one->knows_no_name = true;
    one->names = unknown->known;
  } else if (const auto* none = std::get_if<NoAnswer>(&input)) {
    if (Sentinel* one = Find(none->id)) one->asking = false;
  } else if (const auto* switched = std::get_if<Switched>(&input)) {
    if (Sentinel* one = Find(switched->id)) one->ask_at = now;
  }
}

void SentinelView::HandleReport(core::Instant now, const Reported& input, std::vector<Effect>& effects) {
  Sentinel* one = Find(input.id);
  if (one == nullptr || !one->up) return;
  one->asking = false;
  one->knows_no_name = false;
  one->report = input.report;
  one->report_asked = one->asked;
  if (one->overruled && *one->overruled != Choice{input.report.primary, input.report.epoch}) one->overruled.reset();
  if (!chosen_ && !first_answer_) first_answer_ = now;
  Learn(now, input.report.peers, effects);
}

void SentinelView::Learn(core::Instant now, const std::vector<ServerAddress>& peers, std::vector<Effect>& effects) {
  for (const ServerAddress& peer : peers) {
    const auto known = std::find_if(sentinels_.begin(), sentinels_.end(),
                                    [&](const auto& entry) { return entry.second.address == peer; });
    if (known != sentinels_.end()) {
      known->second.named_at = now;
    } else if (sentinels_.size() < settings_.configured.size() + kMaxLearned) {
      sentinels_[next_id_].address = peer;
      sentinels_[next_id_].named_at = now;
      effects.emplace_back(Dial{next_id_++, peer});
    }
  }
}

void SentinelView::ForgetPeers(core::Instant now, std::vector<Effect>& effects) {
  for (auto it = sentinels_.begin(); it != sentinels_.end();) {
    const Sentinel& one = it->second;
    if (one.configured || one.up || now - one.named_at < kForgetPeer) {
      ++it;
    } else {
      effects.emplace_back(Drop{it->first});
      it = sentinels_.erase(it);
    }
  }
}

void SentinelView::ChooseFirst(core::Instant now, std::vector<Effect>& effects) {
  const auto newest = Newest();
  if (!newest) return;
  size_t answered = 0;
  bool agree = true;
  for (const auto& [id, one] : sentinels_) {
    const auto shown = Shown(one);
    if (!shown) continue;
    answered += one.configured;
    agree = agree && *shown == *newest;
  }
  // Several addresses in one epoch: only a majority can tell which of them is meant.
  bool split = false;
  for (const auto& [id, one] : sentinels_) {
    const auto shown = Shown(one);
    split = split || (shown && shown->epoch == newest->epoch && shown->address != newest->address);
  }
  if (answered >= majority() && (!split || Supporters(*newest) >= majority())) return Take(*newest, effects);
  const bool patience_over = first_answer_ && now >= *first_answer_ + kFewPatience;
  if (answered > 0 && agree && settings_.few_suffice && patience_over) {
    effects.emplace_back(Warn{Cat("only ", answered, " of ", configured(),
                                  " sentinels answer; their primary is used although a majority might know another")});
    Take(*newest, effects);
  }
}

void SentinelView::Follow(std::vector<Effect>& effects) {
  if (const auto newest = Newest(); newest && newest->epoch > chosen_->epoch) Take(*newest, effects);
}

void SentinelView::Overrule(core::Instant now, std::vector<Effect>& effects) {
  std::optional<Choice> rival;
  for (const auto& [id, one] : sentinels_) {
    const auto shown = Shown(one);
    if (one.configured && shown && *shown != *chosen_ && Supporters(*shown) >= majority()) rival = shown;
  }
  if (rival != rival_) {
    rival_ = rival;
    rival_since_ = now;
  }
  if (!rival_ || now < rival_since_ + kOverrule) return;
  const Choice taken = *rival_;
  for (auto& [id, one] : sentinels_) {
    if (const auto shown = Shown(one); shown && *shown != taken && shown->epoch >= taken.epoch) one.overruled = shown;
  }
  effects.emplace_back(
      Warn{Cat("a majority of the sentinels shows ", taken.address.Text(), " at epoch ", taken.epoch, " instead of ",
               chosen_->address.Text(), " at epoch ", chosen_->epoch, ": their configuration was made anew")});
  Take(taken, effects);
}

void SentinelView::CheckName(std::vector<Effect>& effects) {
  size_t unknown = 0;
  std::vector<std::string> names;
  for (const auto& [id, one] : sentinels_) {
    if (one.report) return;
    if (!one.configured || !one.knows_no_name) continue;
    ++unknown;
    names.insert(names.end(), one.names.begin(), one.names.end());
  }
  if (unknown < majority() || std::exchange(wrong_name_told_, true)) return;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  effects.emplace_back(WrongName{std::move(names)});
}

void SentinelView::Take(const Choice& choice, std::vector<Effect>& effects) {
  chosen_ = choice;
  rival_.reset();
  first_answer_.reset();
  for (const auto& [id, one] : sentinels_) {
    if (Shown(one) != choice) continue;
    effects.emplace_back(PrimaryAt{choice.address, choice.epoch, id});
    return;
  }
}

void SentinelView::AskDue(core::Instant now, std::vector<Effect>& effects) {
  for (auto& [id, one] : sentinels_) {
    if (!one.up || one.asking || one.ask_at > now) continue;
    one.asking = true;
    one.asked = now;
    one.ask_at = now + kAskEvery;
    effects.emplace_back(Ask{id});
  }
}

core::Instant SentinelView::NextDeadline() const {
  core::Instant next = core::kNever;
  for (const auto& [id, one] : sentinels_) {
    if (one.up && !one.asking) next = std::min(next, one.ask_at);
  }
  const bool patient = first_answer_ && settings_.few_suffice && *first_answer_ + kFewPatience > now_;
  if (patient) next = std::min(next, *first_answer_ + kFewPatience);
  if (rival_) next = std::min(next, rival_since_ + kOverrule);
  return next;
}

size_t SentinelView::answering() const {
  return static_cast<size_t>(std::count_if(sentinels_.begin(), sentinels_.end(),
                                           [](const auto& entry) { return entry.second.report.has_value(); }));
}

SentinelView::Sentinel* SentinelView::Find(SentinelId id) {
  const auto found = sentinels_.find(id);
  return found == sentinels_.end() ? nullptr : &found->second;
}

std::optional<SentinelView::Choice> SentinelView::Shown(const Sentinel& sentinel) const {
  if (!sentinel.report) return std::nullopt;
  Choice shown{sentinel.report->primary, sentinel.report->epoch};
  if (sentinel.overruled == shown) return std::nullopt;
  return shown;
}

size_t SentinelView::Supporters(const Choice& choice) const {
  return static_cast<size_t>(std::count_if(sentinels_.begin(), sentinels_.end(), [&](const auto& entry) {
    return entry.second.configured && Shown(entry.second) == choice;
  }));
}

core::Instant SentinelView::ShownByMajoritySince() const {
  std::vector<core::Instant> asked;
  for (const auto& [id, one] : sentinels_) {
    if (one.configured && chosen_ && Shown(one) == chosen_) asked.push_back(one.report_asked);
  }
  if (asked.size() < majority()) return {};
  std::ranges::sort(asked, std::greater<>());
  return asked[majority() - 1];
}

std::optional<SentinelView::Choice> SentinelView::Newest() const {
  std::optional<Choice> best;
  for (const auto& [id, one] : sentinels_) {
    const auto shown = Shown(one);
    if (!shown || shown == best) continue;
    if (!best || std::pair(shown->epoch, Supporters(*shown)) > std::pair(best->epoch, Supporters(*best))) best = shown;
  }
  return best;
}

}  // namespace distlock::store
