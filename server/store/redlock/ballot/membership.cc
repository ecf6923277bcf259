// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/membership.h"

#include <algorithm>
#include <utility>

#include "store/text.h"

namespace distlock::store::ballot {
namespace {

// A mark as it was set by anybody, cut to what fits into a message.
std::string Shown(std::string_view mark) {
  constexpr size_t kMost = 200;
  std::string text(mark.substr(0, kMost));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  }
  return text;
}

}  // namespace

Membership::Membership(std::vector<std::string> servers)
    : servers_(std::move(servers)), seen_(servers_.size(), Seen::kNothing), others_(servers_.size()) {
  std::vector<std::string> sorted = servers_;
  std::sort(sorted.begin(), sorted.end());
  mark_ = Cat(sorted.size(), ";");
  for (const std::string& server : sorted) Append(mark_, &server == &sorted.front() ? "" : ",", server);
}

void Membership::OnMark(NodeIndex node, std::string_view mark) {
  seen_[node] = mark.empty() ? Seen::kNone : mark == mark_ ? Seen::kOurs : Seen::kAnother;
  others_[node] = seen_[node] == Seen::kAnother ? Shown(mark) : "";
  established_ |= seen_[node] == Seen::kOurs;
}

bool Membership::all_seen() const { return std::find(seen_.begin(), seen_.end(), Seen::kNothing) == seen_.end(); }

uint32_t Membership::ToMark() const {
  const bool any_other = std::find(seen_.begin(), seen_.end(), Seen::kAnother) != seen_.end();
  if (any_other || (!established_ && !all_seen())) return 0;
  uint32_t blank = 0;
  for (NodeIndex node = 0; node < seen_.size(); ++node) {
    if (seen_[node] == Seen::kNone) blank |= uint32_t{1} << node;
  }
  return blank;
}

std::string Membership::WhyNot(NodeIndex node) const {
  switch (seen_[node]) {
    case Seen::kOurs:
      return "";
    case Seen::kNothing:
      return Cat(servers_[node], " has not been asked yet to which quorum it belongs");
    case Seen::kAnother:
      return Cat(
          servers_[node], " belongs to another quorum, of ", others_[node], ", not of ", mark_,
          ": give all brokers the same list; or make this broker's servers one quorum: stop all other brokers, wait "
          "for --max-ttl, and run distlockctl quorum-init at this one");
    case Seen::kNone:
      break;
  }
  if (established_) return Cat(servers_[node], " is about to be taken into the quorum");
  return Cat(servers_[node], " belongs to no quorum yet, and the first start needs all ", servers_.size(), " servers");
}

}  // namespace distlock::store::ballot
