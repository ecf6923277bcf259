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

using Answer = Stand::Answer;
using Kind = Verdict::Kind;

size_t CountAnswers(const Candidate& candidate, std::initializer_list<Answer> answers) {
  return std::count_if(candidate.stands.begin(), candidate.stands.end(), [&](const Stand& stand) {
    return std::find(answers.begin(), answers.end(), stand.answer) != answers.end();
  });
}

bool Counts(const Bench& bench, NodeIndex node) { return (bench.counts & Bit(node)) != 0; }

bool IsNobody(const Rival& rival) { return rival.view.owner == OwnerId{}; }

// Whether the holders at that server stand against the candidate.
bool Conflicts(const Candidate& candidate, const Stand& stand) {
  return stand.answer == Answer::kNotVoted && (candidate.spec.want.mode != core::Mode::kShared || !stand.shares);
}

// A reader that waits among readers waits for somebody in front of it who does not share: one with an earlier place. He
// gets no vote there before all readers who stand in his way have given theirs back.
bool WaitsForEarlier(const Candidate& candidate, const Stand& stand) {
  return stand.answer == Answer::kNotVoted && stand.queued && stand.shares && stand.position > 0 &&
         candidate.spec.want.mode == core::Mode::kShared;
}

// J3: somebody has q votes, or an earlier place and a vote, or waits for the votes of readers.
struct Opposition {
  std::optional<OwnerId> holder;  // has q votes; of several always the same one. Zeros: a lock_delay
  bool is_earlier = false;
};

Opposition Against(const Candidate& candidate, const Bench& bench) {
  Opposition against;
  const auto mine = std::pair(candidate.spec.place, candidate.spec.owner);
  for (const Stand& stand : candidate.stands) {
    against.is_earlier |= WaitsForEarlier(candidate, stand);
    if (!Conflicts(candidate, stand)) continue;
    for (const Rival& rival : stand.rivals) {
      if (rival.view.owner == candidate.spec.owner) continue;
      against.is_earlier |= !IsNobody(rival) && std::pair(rival.place, rival.view.owner) < mine;
      size_t votes = 0;
      for (const Stand& other : candidate.stands) {
        votes += Conflicts(candidate, other) &&
                 std::any_of(other.rivals.begin(), other.rivals.end(),
                             [&](const Rival& r) { return r.view.owner == rival.view.owner; });
      }
      if (votes < bench.quorum) continue;
      against.holder = std::min(against.holder.value_or(rival.view.owner), rival.view.owner);
    }
  }
  return against;
}

// Whether max_hold ends no promise by a notice of a grant under `token`, believed since `from`.
bool OutlastsNotice(const Candidate& candidate, const Bench& bench, uint64_t token, Instant from) {
  const Duration max_hold = candidate.spec.max_hold;
  if (max_hold == Duration::zero()) return true;
  return HoldStartOf(candidate, token, bench.quorum).began + max_hold >= from + std::min(candidate.spec.ttl, max_hold);
}

// When the belief in a grant under `token` begins: the latest instant before which q of its votes did not begin. False:
// there are fewer. A vote that may have been raised since would be another's by its token, and end the grant.
bool BeliefFrom(const Candidate& candidate, const Bench& bench, uint64_t token, Instant* from) {
  std::array<Instant, kMaxNodes> begins{};
  size_t count = 0;
  for (NodeIndex i = 0; i < candidate.stands.size(); ++i) {
    const Stand& stand = candidate.stands[i];
    const bool is_under = stand.token == token && stand.raised <= token;
    if (is_under && stand.is_fresh && Counts(bench, i)) begins[count++] = stand.from;
  }
  if (count < bench.quorum) return false;
  std::sort(begins.begin(), begins.begin() + count, std::greater<>());
  *from = begins[bench.quorum - 1];
  return true;
}

// With q votes.
Verdict JudgeQuorum(const Candidate& candidate, const Bench& bench) {
  uint64_t greatest = 0;
  uint64_t yielding = 0;  // a grant under it could lose votes by a yield that comes late
  for (const Stand& stand : candidate.stands) yielding = std::max(yielding, stand.yielding);
  bool all_fresh = true;
  bool is_told = false;  // some vote is under the token that the core was told before
  for (NodeIndex i = 0; i < candidate.stands.size(); ++i) {
    const Stand& stand = candidate.stands[i];
    if (stand.token == 0) continue;
    greatest = std::max({greatest, stand.token, stand.raised});
    is_told |= stand.token == candidate.token;
    if (Counts(bench, i)) all_fresh &= stand.is_fresh;
    if (stand.token <= yielding && stand.token != candidate.token) continue;
    Instant from;
    if (!BeliefFrom(candidate, bench, stand.token, &from)) continue;
    const bool young = candidate.questions.empty()
                           ? from + candidate.spec.ttl - bench.margin - bench.now >= bench.enough &&
                                 OutlastsNotice(candidate, bench, stand.token, from)
                           : from >= candidate.LastQuestion()->at;
    if (young) return {.kind = Kind::kGrant, .token = stand.token, .from = from};
  }
  // Answers under way make the votes younger, or are under the token that it was told.
  const bool under_way = !candidate.questions.empty() || is_told;
  if (under_way && !IsRoundOver(candidate, bench)) return {};
  // The core's lease is known by the token that it was told, whatever a server gave since.
  Instant from;
  const bool has_told = candidate.token != 0 && BeliefFrom(candidate, bench, candidate.token, &from);
  if (has_told) return {.kind = Kind::kConfirm, .token = candidate.token};
  const bool keeps = all_fresh && greatest > yielding;
  return {.kind = Kind::kConfirm, .token = keeps ? greatest : std::max({greatest + 1, yielding + 1, bench.proposal})};
}

// A single try without a quorum.
Verdict JudgeTry(const Candidate& candidate, const Bench& bench) {
  if (Against(candidate, bench).holder) return {.kind = Kind::kRefuse};
  if (!IsRoundOver(candidate, bench)) return {};
  if (CountAnswers(candidate, {Answer::kVoted, Answer::kNotVoted}) < bench.quorum) return {.kind = Kind::kNoQuorum};
  // Most servers have waiters that come first, or most must not count yet.
  const size_t free_but_queued =
      std::count_if(candidate.stands.begin(), candidate.stands.end(),
                    [&](const Stand& stand) { return stand.answer == Answer::kNotVoted && stand.rivals.empty(); });
  const bool is_waited_for = free_but_queued > bench.nodes - bench.quorum;
  const bool may_not_count = static_cast<size_t>(__builtin_popcount(bench.counts)) < bench.quorum;
  if (is_waited_for || may_not_count || candidate.splits >= kSplitRetries) return {.kind = Kind::kRefuse};
  return {.kind = Kind::kSplit};
}

}  // namespace

HoldStart HoldStartOf(const Candidate& candidate, uint64_t token, size_t quorum) {
  HoldStart hold;
  absl::InlinedVector<Instant, 5> begins;
  for (const Stand& stand : candidate.stands) {
    if (stand.token == 0 || (token != 0 && (stand.token != token || !stand.is_fresh))) continue;
    begins.push_back(stand.began);
    hold.began_by = std::max(hold.began_by, stand.began_by);
  }
  std::ranges::sort(begins, std::greater<>());
  if (!begins.empty()) hold.began = begins[std::min(begins.size(), quorum) - 1];
  return hold;
}

bool NobodyBelieves(const Candidate& candidate, const Bench& bench) {
  size_t without = 0;
  for (NodeIndex i = 0; i < candidate.stands.size(); ++i) {
    without += candidate.stands[i].answer == Answer::kNotVoted && Counts(bench, i);
  }
  return without > bench.nodes - bench.quorum;
}

bool IsRoundOver(const Candidate& candidate, const Bench& bench) {
  const size_t asked = CountAnswers(candidate, {Answer::kAsked});
  const size_t useful = CountAnswers(candidate, {Answer::kVoted, Answer::kNotVoted});
  return asked == 0 || bench.now >= bench.silence || (bench.now >= bench.patience && useful >= bench.quorum);
}

bool HasPlace(const Candidate& candidate, const Bench& bench) {
  const size_t placed = std::count_if(candidate.stands.begin(), candidate.stands.end(),
                                      [](const Stand& stand) { return stand.queued || stand.token != 0; });
  if (placed < bench.quorum) return false;
  const size_t not_voted = CountAnswers(candidate, {Answer::kNotVoted});
  return not_voted > bench.nodes - bench.quorum || IsRoundOver(candidate, bench);
}

Verdict Judge(const Candidate& candidate, const Bench& bench) {
  size_t votes = 0;
  bool has_votes = false;
  for (NodeIndex i = 0; i < candidate.stands.size(); ++i) {
    has_votes |= candidate.stands[i].token != 0;
    votes += candidate.stands[i].token != 0 && Counts(bench, i);
  }
  if (votes >= bench.quorum) return JudgeQuorum(candidate, bench);
  if (CountAnswers(candidate, {Answer::kRefused}) > bench.nodes - bench.quorum) {
    const auto refuses = std::find_if(candidate.stands.begin(), candidate.stands.end(),
                                      [](const Stand& stand) { return stand.answer == Answer::kRefused; });
    return {.kind = Kind::kFail, .node = static_cast<NodeIndex>(refuses - candidate.stands.begin())};
  }
  if (CountAnswers(candidate, {Answer::kLate}) > bench.nodes - bench.quorum) return {.kind = Kind::kLate};
  if (!candidate.waits) return JudgeTry(candidate, bench);
  // Another try of its request has the place.
  const size_t displaced = std::count_if(candidate.stands.begin(), candidate.stands.end(), [](const Stand& stand) {
    return stand.answer == Answer::kNotVoted && !stand.queued;
  });
  if (displaced > bench.nodes - bench.quorum) return {.kind = Kind::kRefuse};
  if (!IsRoundOver(candidate, bench)) return {};
  if (!candidate.questions.empty() && !HasPlace(candidate, bench)) return {.kind = Kind::kNoQuorum};
  if (!has_votes) return {.kind = Kind::kStand};
  if (candidate.is_dated) return {.kind = Kind::kKeep};
  const Opposition against = Against(candidate, bench);
  if (!against.holder && !against.is_earlier) return {.kind = Kind::kKeep};
  return {.kind = Kind::kYield, .holder = against.holder};
}

std::string TroubleOf(const Candidate& candidate) {
  std::map<std::string_view, int> said;
  for (const Stand& stand : candidate.stands) {
    if (stand.answer == Answer::kFailed && !stand.trouble.empty()) ++said[stand.trouble];
  }
  std::string text;
  for (const auto& [trouble, count] : said) Append(text, "; ", count, count == 1 ? " refuses: " : " refuse: ", trouble);
  return text;
}

}  // namespace distlock::store::ballot
