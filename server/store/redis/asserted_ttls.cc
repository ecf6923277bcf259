// SPDX-License-Identifier: Apache-2.0
#include "store/redis/asserted_ttls.h"

#include <algorithm>

#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {

using core::Duration;
using core::Instant;

namespace {

// Brokers that tell each other what they have heard must not make it younger each time.
constexpr Duration kSameTime = std::chrono::seconds(2);

}  // namespace

void AssertedTtls::Hear(const Assertion& assertion, Instant now) {
  if (assertion.ttl <= Duration::zero()) return;
  const Heard fresh{assertion.ttl, now - std::max(assertion.age, Duration::zero())};
  const auto known = std::ranges::find_if(heard_, [&](const Heard& one) {
    return one.ttl >= fresh.ttl && one.last + (one.ttl == fresh.ttl ? kSameTime : Duration::zero()) >= fresh.last;
  });
  if (known != heard_.end()) return;
  std::erase_if(
      heard_, [&](const Heard& one) { return !Matters(one, now) || (one.ttl <= fresh.ttl && one.last <= fresh.last); });
  if (!Matters(fresh, now)) return;
  heard_.insert(std::ranges::find_if(heard_, [&](const Heard& one) { return one.ttl < fresh.ttl; }), fresh);
  if (heard_.size() > kMost) {
    heard_[kMost - 1].last = heard_.back().last;
    heard_.pop_back();
  }
}

Duration AssertedTtls::Longest(Instant now) const {
  const auto longest = std::ranges::find_if(heard_, [&](const Heard& one) { return Matters(one, now); });
  return longest == heard_.end() ? Duration::zero() : longest->ttl;
}

std::vector<AssertedTtls::Assertion> AssertedTtls::All(Instant now) const {
  std::vector<Assertion> all;
  for (const Heard& one : heard_) {
    if (Matters(one, now)) all.push_back({one.ttl, std::max(now - one.last, Duration::zero())});
  }
  return all;
}

std::string AssertedTtls::Text(const std::vector<Assertion>& assertions) {
  std::string text;
  for (const Assertion& one : assertions) {
    Append(text, text.empty() ? "" : ",", CeilMs(one.ttl), ":",
           std::chrono::floor<std::chrono::milliseconds>(one.age).count());
  }
  return text;
}

std::vector<AssertedTtls::Assertion> AssertedTtls::Parse(std::string_view text) {
  std::vector<Assertion> all;
  for (const std::string_view one : Split(text, ",")) {
    const auto [ttl, age] = Cut(one, ':');
    const auto ttl_ms = ParseNumber(ttl), age_ms = ParseNumber(age);
    if (!ttl_ms || !age_ms) return {};
    all.push_back({FromMs(*ttl_ms), FromMs(*age_ms)});
  }
  return all;
}

}  // namespace distlock::store
