// SPDX-License-Identifier: Apache-2.0
#include "rpc/messages/outbox.h"

#include <algorithm>
#include <utility>

#include "contract/refusal.h"
#include "contract/to_proto.h"

namespace distlock::rpc {
namespace {

struct Filler {
  const core::LockName& about;
  v1::SessionEvent& out;

  void operator()(const core::Queued& event) const { *out.mutable_queued() = contract::QueuedOf(event); }
  void operator()(const core::Granted& event) const { contract::Fill(event, {}, out.mutable_granted()); }
  void operator()(const core::Refused& event) const { *out.mutable_refused() = contract::RefusalOf(event, about); }
  void operator()(const core::Released& event) const { contract::Fill(event, out.mutable_released()); }
  void operator()(const core::HeartbeatAck& event) const { *out.mutable_heartbeat_ack() = contract::AckOf(event); }
  void operator()(const core::Renewed& event) const { *out.mutable_renewed() = contract::RenewedOf(event); }
  void operator()(const core::AtRisk& event) const { *out.mutable_at_risk() = contract::AtRiskOf(event); }
  void operator()(const core::Lost& event) const { *out.mutable_lost() = contract::LostOf(event); }
  void operator()(const core::Draining& event) const { *out.mutable_draining() = contract::DrainingOf(event); }
  void operator()(const core::Downgraded& event) const { *out.mutable_downgraded() = contract::DowngradedOf(event); }
  void operator()(const core::Wanted& event) const { *out.mutable_wanted() = contract::WantedOf(event); }
  // These are never put into a session's outbox.
  void operator()(const core::RenewDone&) const {}
  void operator()(const core::Changed&) const {}
  void operator()(const core::EndStream&) const {}
};

bool IsState(const core::Event& event) {
  return std::holds_alternative<core::Renewed>(event) || std::holds_alternative<core::AtRisk>(event);
}

bool IsOvertaken(const Outgoing& out) {
  if (out.made != nullptr) return out.made->has_refused();
  return std::holds_alternative<core::Queued>(out.event) || std::holds_alternative<core::Refused>(out.event);
}

template <typename Holders>
size_t BytesOf(const Holders& holders) {
  size_t bytes = 0;
  for (const core::HolderView& holder : holders) bytes += sizeof(holder) + holder.info.size();
  return bytes;
}

// Bytes that an event has outside of itself.
struct Weigher {
  size_t operator()(const core::Queued& event) const { return BytesOf(event.holders); }
  size_t operator()(const core::Refused& event) const {
    return BytesOf(event.holders) + event.cause.size() + event.about.escaped().size();
  }
  size_t operator()(const core::HeartbeatAck& event) const { return event.limits.size() * sizeof(core::LeaseLimit); }
  size_t operator()(const core::AtRisk& event) const { return event.name.escaped().size() + event.cause.size(); }
  size_t operator()(const core::Lost& event) const { return event.name.escaped().size() + event.cause.size(); }
  template <typename Event>
  size_t operator()(const Event& event) const {
    if constexpr (requires { event.name.escaped(); }) return event.name.escaped().size();
    return 0;
  }
};

size_t BytesOf(const Outgoing& out) {
  const size_t own = out.made != nullptr ? out.made->ByteSizeLong() : std::visit(Weigher(), out.event);
  return sizeof(Outgoing) + out.about.escaped().size() + own;
}

// How many of them are shown.
template <typename Holders>
size_t Shown(const Holders& holders) {
  size_t bytes = 0;
  for (size_t i = 0; i < holders.size(); ++i) {
    bytes += sizeof(core::HolderView) + holders[i].info.size();
    if (i > 0 && bytes > kMostHolderBytes) return i;
  }
  return holders.size();
}

void Shorten(std::vector<core::HolderView>& holders) { holders.resize(Shown(holders)); }

void Shorten(core::HolderList& holders) {
  const size_t shown = Shown(holders);
  if (shown == holders.size()) return;
  holders = std::vector<core::HolderView>(holders.begin(), holders.begin() + shown);
}

// True when the event ends the lease or the acquire: earlier states do not matter any more, and the id may be reused.
bool IsLast(const core::Event& event) {
  return std::holds_alternative<core::Lost>(event) || std::holds_alternative<core::Refused>(event) ||
         std::holds_alternative<core::Released>(event);
}

}  // namespace

void ShortenHolders(core::Event& event) {
  if (auto* queued = std::get_if<core::Queued>(&event)) Shorten(queued->holders);
  if (auto* refused = std::get_if<core::Refused>(&event)) Shorten(refused->holders);
}

void Outbox::Drop(uint64_t number) {
  if (number < first_) return;  // taken already
  bytes_ -= BytesOf(*slots_[number - first_]);
  slots_[number - first_].reset();
  --live_;
}

void Outbox::DropOf(core::RequestId acquire, Slots& slots) {
  const auto at = slots.find(acquire);
  if (at == slots.end()) return;
  Drop(at->second);
  slots.erase(at);
}

Outbox::Slots* Outbox::SlotsOf(const Outgoing& out) {
  if (out.made != nullptr) return nullptr;
  if (IsState(out.event)) return &state_;
  return std::holds_alternative<core::Wanted>(out.event) ? &wanted_ : nullptr;
}

bool Outbox::Push(Outgoing out) {
  const bool own = out.made != nullptr;
  const bool is_ack = !own && std::holds_alternative<core::HeartbeatAck>(out.event);
  if (is_ack && ack_ != kNone) Drop(std::exchange(ack_, kNone));
  Slots* const replaces = SlotsOf(out);
  if (replaces != nullptr) DropOf(out.id, *replaces);
  if (!own && IsLast(out.event)) {
    DropOf(out.id, state_);
    DropOf(out.id, wanted_);
  }
  // Slots are bounded, too: slots of replaced events take memory until the front has passed them.
  if (live_ >= max_events_ || slots_.size() >= 2 * max_events_) return false;
  ++live_;
  bytes_ += BytesOf(out);
  if (is_ack) {
    // The slots behind it get other numbers: none of them is in state_ or wanted_.
    ack_ = std::max(ack_goes_to_, first_);
    slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(ack_ - first_), std::move(out));
    return true;
  }
  const uint64_t number = first_ + slots_.size();
  if (!IsOvertaken(out)) ack_goes_to_ = number + 1;
  if (replaces != nullptr) replaces->emplace(out.id, number);
  slots_.emplace_back(std::move(out));
  return true;
}

void Outbox::Clear() {
  first_ += slots_.size();
  slots_.clear();
  state_.clear();
  wanted_.clear();
  live_ = bytes_ = 0;
  ack_ = kNone;
}

size_t Outbox::Take(size_t max, size_t max_bytes, std::deque<Outgoing>& batch) {
  size_t bytes = 0;
  for (size_t taken = 0; taken < max && bytes < max_bytes && !slots_.empty();) {
    Slot slot = std::move(slots_.front());
    slots_.pop_front();
    ++first_;
    if (!slot) continue;
    if (Slots* const slots = SlotsOf(*slot); slots != nullptr) slots->erase(slot->id);
    bytes += BytesOf(*slot);
    batch.push_back(*std::move(slot));
    --live_;
    ++taken;
  }
  bytes_ -= bytes;
  if (ack_ != kNone && ack_ < first_) ack_ = kNone;
  return bytes;
}

void Pack(std::deque<Outgoing>& batch, v1::SessionResponse* response) {
  size_t bytes = 0;
  while (!batch.empty() && bytes < kFullMessageBytes &&
         static_cast<size_t>(response->events_size()) < kMaxEventsPerMessage) {
    Outgoing& out = batch.front();
    v1::SessionEvent* event = response->add_events();
    if (out.made != nullptr) {
      event->Swap(out.made.get());
    } else {
      std::visit(Filler{out.about, *event}, out.event);
    }
    event->set_id(out.id);
    bytes += event->ByteSizeLong();
    batch.pop_front();
  }
}

}  // namespace distlock::rpc
