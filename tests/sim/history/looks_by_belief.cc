// SPDX-License-Identifier: Apache-2.0
//
// I14, I15 and I16 where the store is not observed: what clients believe, and what they have been told, must be shown;
// and nothing that is known to be over.
#include <algorithm>

#include "history/checks.h"

namespace distlock::sim {
namespace {

// A belief that is over since a moment at which a client knew it.
struct Over {
  int64_t since = kNotSeen;
  std::string why;
};

class Judge {
 public:
  Judge(const Index& index, Report& report) : index_(index), report_(report), told_(index.history.locks.size()) {
    for (const Tenure& tenure : index.tenures) {
      if (tenure.told != kNotSeen) told_[static_cast<size_t>(tenure.lock)].push_back(&tenure);
    }
    for (auto& tenures : told_) std::ranges::stable_sort(tenures, {}, &Tenure::told);
  }

  void Holders(const Look& look) const {
    if (IsBlurred(look)) return;
    for (const Look::Holder& one : look.holders) Shown(look, one);
    if (look.holder_count > static_cast<int64_t>(look.holders.size())) return;
    const Tenure* const missing = Believed(look, look.lock);
    if (missing == nullptr) return;
    report_.Add("I14", look.lock, {missing->lease}, look.told_ns,
                WordsOf(index_, report_, look) + " showed " + std::to_string(look.holder_count) + " holders, but not " +
                    report_.Lease(missing->lease) + " (token " + std::to_string(missing->token) +
                    "), which believed all that time");
  }

  void Newest(const Look& look) const {
    const Tenure* const newer = Newer(look);
    if (newer == nullptr && Agrees(look)) return;
    report_.Add(
        "I15", look.lock, {newer == nullptr ? -1 : newer->lease}, look.told_ns,
        WordsOf(index_, report_, look) + " showed " + std::to_string(look.newest_token) + " as the newest token; but " +
            (newer == nullptr ? "took another one for it"
                              : report_.Lease(newer->lease) + " had been told " + std::to_string(newer->token)));
  }

  void List(const Look& look) const {
    if (IsBlurred(look) || MayMove(index_, look)) return;
    for (int32_t lock = 0; lock < static_cast<int32_t>(index_.history.locks.size()); ++lock) {
      if (std::ranges::find(look.listed, lock) != look.listed.end()) continue;
      const Tenure* const missing = Believed(look, lock);
      if (missing == nullptr || MayJoin(look, *missing)) continue;
      report_.Add("I16", lock, {missing->lease}, look.told_ns,
                  WordsOf(index_, report_, look) + " had no " + report_.Lock(lock) + ", but " +
                      report_.Lease(missing->lease) + " believed all that time");
    }
  }

 private:
  // A failover in [from, until], or one server of a quorum that comes back, may have forgotten what was granted or
  // released before.
  bool MayHaveForgotten(int64_t from, int64_t until) const {
    if (index_.history.silent_minority) return true;
    return std::ranges::any_of(index_.troubles, [&](const Trouble& trouble) {
      const bool forgets = trouble.kind == FaultKind::kPromoted ||
                           (index_.history.stray_votes && trouble.kind == FaultKind::kStoreRestarted);
      return forgets && trouble.from <= until && trouble.until >= from;
    });
  }

  // Fewer than all servers of a quorum may have answered, or one that has forgotten: then a holder is shown that may
  // have most votes, and one that is about to join again there is not.
  bool IsBlurred(const Look& look) const {
    if (!index_.history.stray_votes) return false;
    return index_.history.silent_minority || index_.TroubledUntil(look.told_ns) >= look.asked_ns;
  }

  // A list goes through the servers one after the other: it misses a lock that joins one meanwhile.
  bool MayJoin(const Look& look, const Tenure& tenure) const {
    return index_.history.stray_votes && tenure.told > look.asked_ns - index_.history.joins_ns;
  }

  // One who believed from the question to the answer and is not shown, and must be; null: none.
  const Tenure* Believed(const Look& look, int32_t lock) const {
    const auto first = std::ranges::lower_bound(index_.beliefs, lock, {}, &Belief::lock);
    for (auto belief = first; belief != index_.beliefs.end() && belief->lock == lock; ++belief) {
      if (belief->from > look.asked_ns) return nullptr;
      if (belief->until < look.told_ns) continue;
      const Tenure& tenure = index_.tenures[static_cast<size_t>(belief->tenure)];
      const bool shown = std::ranges::any_of(look.holders, [&](const Look::Holder& one) {
        return one.lease == tenure.lease && one.token == tenure.token;
      });
      if (shown || IsAccepted(index_, tenure) || MayHaveForgotten(index_.BeganNotBefore(tenure), look.told_ns))
        continue;
      return &tenure;
    }
    return nullptr;
  }

  void Shown(const Look& look, const Look::Holder& one) const {
    const bool known = one.lease >= 0 && one.lease < static_cast<int64_t>(index_.fates.size()) &&
                       index_.TermsOf(one.lease).lock == look.lock;
    const int64_t asked = known ? index_.fates[static_cast<size_t>(one.lease)].asked : kNotSeen;
    Over over;
    if (asked == kNotSeen || asked > look.told_ns) {
      over = {look.told_ns, "nobody had asked for that"};
    } else {
      over = OverBefore(look, one);
    }
    if (over.since == kNotSeen || MayHaveForgotten(over.since, look.told_ns)) return;
    report_.Add("I14", look.lock, {known ? one.lease : -1}, look.told_ns,
                WordsOf(index_, report_, look) + " showed as a holder " +
                    (known ? report_.Lease(one.lease) : "nobody") + " (token " + std::to_string(one.token) + "), but " +
                    over.why);
  }

  Over OverBefore(const Look& look, const Look::Holder& one) const {
    const Fate& fate = index_.fates[static_cast<size_t>(one.lease)];
    for (const Tenure* const tenure : told_[static_cast<size_t>(look.lock)]) {
      if (tenure->told > look.asked_ns) break;
      if (tenure->lease == one.lease) {
        const bool released = tenure->token == one.token && tenure->ended != kNotSeen &&
                              tenure->why == EndedWhy::kReleasing && fate.released != kNotSeen &&
                              fate.released >= tenure->ended && fate.released <= look.asked_ns;
        if (released) return {fate.released, "it was released at " + Report::At(fate.released)};
        continue;
      }
      if (tenure->token <= one.token || MayShare(index_.TermsOf(*tenure), index_.TermsOf(one.lease))) continue;
      // A reader may follow a writer that was downgraded.
      if (index_.TermsOf(*tenure).kind == HoldKind::kShared && fate.yielded != kNotSeen) continue;
      return {tenure->told, report_.Lease(tenure->lease) + " had been granted the lock after it, with token " +
                                std::to_string(tenure->token)};
    }
    return {};
  }

  // One with a greater token than the newest that is shown, told before the question; null: none.
  const Tenure* Newer(const Look& look) const {
    for (const Tenure* const tenure : told_[static_cast<size_t>(look.lock)]) {
      if (tenure->told > look.asked_ns) return nullptr;
      if (tenure->token <= look.newest_token) continue;
      if (!MayHaveForgotten(index_.BeganNotBefore(*tenure), look.told_ns)) return tenure;
    }
    return nullptr;
  }

  const Index& index_;
  Report& report_;
  std::vector<std::vector<const Tenure*>> told_;  // by lock, then by `told`
};

}  // namespace

void CheckLooksByBelief(const Index& index, Report& report) {
  const Judge judge(index, report);
  for (const Look& look : index.history.looks) {
    if (look.kind == Look::Kind::kList) {
      judge.List(look);
      continue;
    }
    if (look.kind == Look::Kind::kLock) judge.Holders(look);
    judge.Newest(look);
  }
}

}  // namespace distlock::sim
