// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/judge.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "store/text.h"

namespace distlock::store::ballot {
namespace {

using Answer = VoteAtServer::Answer;
using Kind = Verdict::Kind;

size_t CountAnswers(const Candidate& candidate, std::initializer_list<Answer> answers) {
  return std::count_if(candidate.at.begin(), candidate.at.end(), [&](const VoteAtServer& at_node) {
    return std::find(answers.begin(), answers.end(), at_node.answer) != answers.end();
  });
}

bool Counts(const ServersView& servers, NodeIndex node) { return (servers.counts & Bit(node)) != 0; }

bool IsNobody(const Rival& rival) { return rival.view.owner == OwnerId{}; }

// Whether the holders at that server stand against the candidate.
bool Conflicts(const Candidate& candidate, const VoteAtServer& at_node) {
  return at_node.answer == Answer::kNotVoted && (candidate.spec.want.mode != core::Mode::kShared || !at_node.shares);
}

// A reader that waits among readers waits for somebody in front of it who does not share: one with an earlier place. He
// gets no vote there before all readers who stand in his way have given theirs back.
bool WaitsForEarlier(const Candidate& candidate, const VoteAtServer& at_node) {
  return at_node.answer == Answer::kNotVoted && at_node.queued && at_node.shares && at_node.position > 0 &&
         candidate.spec.want.mode == core::Mode::kShared;
}

// J3: somebody has q votes, or an earlier place and a vote, or waits for the votes of readers.
struct Opposition {
  std::optional<OwnerId> holder;  // has q votes; of several always the same one. Zeros: a lock_delay
  bool is_earlier = false;
};

Opposition Against(const Candidate& candidate, const ServersView& servers) {
  Opposition against;
  const auto mine = std::pair(candidate.spec.place, candidate.spec.owner);
  for (const VoteAtServer& at_node : candidate.at) {
    against.is_earlier |= WaitsForEarlier(candidate, at_node);
    if (!Conflicts(candidate, at_node)) continue;
    for (const Rival& rival : at_node.rivals) {
      if (rival.view.owner == candidate.spec.owner) continue;
      against.is_earlier |= !IsNobody(rival) && std::pair(rival.place, rival.view.owner) < mine;
      size_t votes = 0;
      for (const VoteAtServer& other : candidate.at) {
        votes += Conflicts(candidate, other) &&
                 std::any_of(other.rivals.begin(), other.rivals.end(),
                             [&](const Rival& r) { return r.view.owner == rival.view.owner; });
      }
      if (votes < servers.quorum) continue;
      against.holder = std::min(against.holder.value_or(rival.view.owner), rival.view.owner);
    }
  }
  return against;
}

// Whether max_hold ends no promise by a notice of a grant under `token`, believed since `from`.
bool OutlastsNotice(const Candidate& candidate, const ServersView& servers, uint64_t token, Instant from) {
  const Duration max_hold = candidate.spec.max_hold;
  if (max_hold == Duration::zero()) return true;
  return HoldStartOf(candidate, token, servers.quorum).began + max_hold >=
         from + std::min(candidate.spec.ttl, max_hold);
}

// When the belief in a grant under `token` begins: the latest instant before which q of its votes did not begin. False:
// there are fewer. A vote that may have been raised since would be another's by its token, and end the grant.
bool BeliefFrom(const Candidate& candidate, const ServersView& servers, uint64_t token, Instant* from) {
  std::array<Instant, kMaxNodes> begins{};
  size_t count = 0;
  for (NodeIndex i = 0; i < candidate.at.size(); ++i) {
    const VoteAtServer& at_node = candidate.at[i];
    const bool is_under = at_node.token == token && at_node.raised <= token;
    if (is_under && at_node.is_fresh && Counts(servers, i)) begins[count++] = at_node.from;
  }
  if (count < servers.quorum) return false;
  std::sort(begins.begin(), begins.begin() + count, std::greater<>());
  *from = begins[servers.quorum - 1];
  return true;
}

// With q votes.
Verdict JudgeQuorum(const Candidate& candidate, const ServersView& servers) {
  uint64_t greatest = 0;
  uint64_t yielding = 0;  // a grant under it could lose votes by a yield that comes late
  for (const VoteAtServer& at_node : candidate.at) yielding = std::max(yielding, at_node.yielding);
  bool all_fresh = true;
  bool is_told = false;  // some vote is under the token that the core was told before
  for (NodeIndex i = 0; i < candidate.at.size(); ++i) {
    const VoteAtServer& at_node = candidate.at[i];
    if (at_node.token == 0) continue;
    greatest = std::max({greatest, at_node.token, at_node.raised});
    is_told |= at_node.token == candidate.token;
    if (Counts(servers, i)) all_fresh &= at_node.is_fresh;
    if (at_node.token <= yielding && at_node.token != candidate.token) continue;
    Instant from;
    if (!BeliefFrom(candidate, servers, at_node.token, &from)) continue;
    const bool young = candidate.unanswered.empty()
                           ? from + candidate.spec.ttl - servers.margin - servers.now >= servers.enough &&
                                 OutlastsNotice(candidate, servers, at_node.token, from)
                           : from >= candidate.LastUnanswered()->at;
    if (young) return {.kind = Kind::kGrant, .token = at_node.token, .from = from};
  }
  // Answers under way make the votes younger, or are under the token that it was told.
  const bool under_way = !candidate.unanswered.empty() || is_told;
  if (under_way && !IsRoundOver(candidate, servers)) return {};
  // The core's lease is known by the token that it was told, whatever a server gave since.
  Instant from;
  const bool has_told = candidate.token != 0 && BeliefFrom(candidate, servers, candidate.token, &from);
  if (has_told) return {.kind = Kind::kConfirm, .token = candidate.token};
  const bool keeps = all_fresh && greatest > yielding;
  return {.kind = Kind::kConfirm, .token = keeps ? greatest : std::max({greatest + 1, yielding + 1, servers.proposal})};
}

// A single try without a quorum.
Verdict JudgeTry(const Candidate& candidate, const ServersView& servers) {
  if (Against(candidate, servers).holder) return {.kind = Kind::kRefuse};
  if (!IsRoundOver(candidate, servers)) return {};
  if (CountAnswers(candidate, {Answer::kVoted, Answer::kNotVoted}) < servers.quorum) return {.kind = Kind::kNoQuorum};
  // Most servers have waiters that come first, or most must not count yet.
  const size_t free_but_queued = std::count_if(
      candidate.at.begin(), candidate.at.end(),
      [&](const VoteAtServer& at_node) { return at_node.answer == Answer::kNotVoted && at_node.rivals.empty(); });
  const bool is_waited_for = free_but_queued > servers.nodes - servers.quorum;
  const bool may_not_count = static_cast<size_t>(__builtin_popcount(servers.counts)) < servers.quorum;
  if (is_waited_for || may_not_count || candidate.splits >= kSplitRetries) return {.kind = Kind::kRefuse};
  return {.kind = Kind::kSplit};
}

}  // namespace

HoldStart HoldStartOf(const Candidate& candidate, uint64_t token, size_t quorum) {
  HoldStart hold;
  absl::InlinedVector<Instant, 5> begins;
  for (const VoteAtServer& at_node : candidate.at) {
    if (at_node.token == 0 || (token != 0 && (at_node.token != token || !at_node.is_fresh))) continue;
    begins.push_back(at_node.began);
    hold.began_by = std::max(hold.began_by, at_node.began_by);
  }
  std::ranges::sort(begins, std::greater<>());
  if (!begins.empty()) hold.began = begins[std::min(begins.size(), quorum) - 1];
  return hold;
}

bool NobodyBelieves(const Candidate& candidate, const ServersView& servers) {
  size_t without = 0;
  for (NodeIndex i = 0; i < candidate.at.size(); ++i) {
    without += candidate.at[i].answer == Answer::kNotVoted && Counts(servers, i);
  }
  return without > servers.nodes - servers.quorum;
}

bool IsRoundOver(const Candidate& candidate, const ServersView& servers) {
  const size_t asked = CountAnswers(candidate, {Answer::kAsked});
  const size_t useful = CountAnswers(candidate, {Answer::kVoted, Answer::kNotVoted});
  return asked == 0 || servers.now >= servers.silence || (servers.now >= servers.patience && useful >= servers.quorum);
}

bool HasPlace(const Candidate& candidate, const ServersView& servers) {
  const size_t placed = std::count_if(candidate.at.begin(), candidate.at.end(),
                                      [](const VoteAtServer& at_node) { return at_node.queued || at_node.token != 0; });
  if (placed < servers.quorum) return false;
  const size_t not_voted = CountAnswers(candidate, {Answer::kNotVoted});
  return not_voted > servers.nodes - servers.quorum || IsRoundOver(candidate, servers);
}

Verdict Judge(const Candidate& candidate, const ServersView& servers) {
  size_t votes = 0;
  bool has_votes = false;
  for (NodeIndex i = 0; i < candidate.at.size(); ++i) {
    has_votes |= candidate.at[i].token != 0;
    votes += candidate.at[i].token != 0 && Counts(servers, i);
  }
  if (votes >= servers.quorum) return JudgeQuorum(candidate, servers);
  if (CountAnswers(candidate, {Answer::kRefused}) > servers.nodes - servers.quorum) {
    const auto refuses = std::find_if(candidate.at.begin(), candidate.at.end(),
                                      [](const VoteAtServer& at_node) { return at_node.answer == Answer::kRefused; });
    return {.kind = Kind::kFail, .node = static_cast<NodeIndex>(refuses - candidate.at.begin())};
  }
  if (CountAnswers(candidate, {Answer::kLate}) > servers.nodes - servers.quorum) return {.kind = Kind::kLate};
  if (!candidate.waits) return JudgeTry(candidate, servers);
  // Another try of its request has the place.
  const size_t displaced = std::count_if(candidate.at.begin(), candidate.at.end(), [](const VoteAtServer& at_node) {
    return at_node.answer == Answer::kNotVoted && !at_node.queued;
  });
  if (displaced > servers.nodes - servers.quorum) return {.kind = Kind::kRefuse};
  if (!IsRoundOver(candidate, servers)) return {};
  if (!candidate.unanswered.empty() && !HasPlace(candidate, servers)) return {.kind = Kind::kNoQuorum};
  if (!has_votes) return {.kind = Kind::kWaitForTurn};
  if (candidate.is_dated) return {.kind = Kind::kKeep};
  const Opposition against = Against(candidate, servers);
  if (!against.holder && !against.is_earlier) return {.kind = Kind::kKeep};
  return {.kind = Kind::kYield, .holder = against.holder};
}

std::string TroubleOf(const Candidate& candidate) {
  std::map<std::string_view, int> said;
  for (const VoteAtServer& at_node : candidate.at) {
    if (at_node.answer == Answer::kFailed && !at_node.trouble.empty()) ++said[at_node.trouble];
  }
  std::string text;
  for (const auto& [trouble, count] : said) Append(text, "; ", count, count == 1 ? " refuses: " : " refuse: ", trouble);
  return text;
}

}  // namespace distlock::store::ballot
