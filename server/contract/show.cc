// SPDX-License-Identifier: Apache-2.0
#include "contract/show.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "contract/utf8.h"

namespace distlock::contract {
namespace {

constexpr size_t kShownNameBytes = 160;

}  // namespace

std::string Show(core::Duration duration) {
  // Fractions of a millisecond do not matter to people.
  if (duration >= std::chrono::milliseconds(1)) duration = std::chrono::round<std::chrono::milliseconds>(duration);
  return absl::FormatDuration(absl::FromChrono(duration));
}

std::string ShowRoughly(core::Duration duration) {
  const auto seconds = std::max<int64_t>(std::chrono::round<std::chrono::seconds>(duration).count(), 0);
  if (seconds < 60) return absl::StrCat(seconds, " s");
  const int64_t minutes = (seconds + 30) / 60;
  return minutes < 60 ? absl::StrCat(minutes, " min") : absl::StrCat((minutes + 30) / 60, " h");
}

std::string Show(const core::LockName& name) {
  if (name.empty()) return "the lock";
  const auto [ns, key] = name.Decode();
  return absl::StrCat("lock \"", Shorten(CleanText(absl::StrCat(ns, ":", key)), kShownNameBytes), "\"");
}

}  // namespace distlock::contract
