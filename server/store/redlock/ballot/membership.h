// SPDX-License-Identifier: Apache-2.0
//
// Which servers belong together. Each carries a mark that names all of them, so that two brokers whose lists differ do
// not each find a quorum of their own. A server with another mark is not one of ours: nothing may be written to it. One
// without a mark has lost its data, or nobody has used it yet; it gets the mark once some other server shows ours, or
// all of them have been looked at and none has any. Pure; a value. Thread: the loop's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/redlock/ballot/messages.h"

namespace distlock::store::ballot {

class Membership {
 public:
  // As the broker's URL names them; the order does not matter.
  explicit Membership(std::vector<std::string> servers);

  // The mark of each of them: their number, and their addresses in order.
  const std::string& mark() const { return mark_; }

  // The mark of a server that is connected; "": nothing.
  void OnMark(NodeIndex node, std::string_view mark);
  void OnDown(NodeIndex node) { seen_[node] = Seen::kNothing; }

  bool IsMember(NodeIndex node) const { return seen_[node] == Seen::kOurs; }
  bool IsAnothers(NodeIndex node) const { return seen_[node] == Seen::kAnother; }
  // Some server has shown the mark, now or before.
  bool established() const { return established_; }
  bool all_seen() const;
  // Bits: those that are to get the mark now.
  uint32_t ToMark() const;
  // For people; "": the server is a member.
  std::string WhyNot(NodeIndex node) const;

 private:
  enum class Seen : uint8_t { kNothing, kNone, kOurs, kAnother };

  const std::vector<std::string> servers_;
  std::string mark_;
  std::vector<Seen> seen_;           // by server
  std::vector<std::string> others_;  // by server: its mark, of kAnother
  bool established_ = false;
};

}  // namespace distlock::store::ballot
