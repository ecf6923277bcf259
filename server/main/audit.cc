// SPDX-License-Identifier: Apache-2.0
#include "main/audit.h"

#include <memory>
#include <optional>

namespace distlock {
namespace {

constexpr absl::Duration kBetweenLines = absl::Milliseconds(100);

constexpr const char* kOutcomes[] = {"allowed", "denied", "would_deny"};

}  // namespace

void AuditLog::OnAccess(const rpc::AccessEvent& event) {
  metrics_.access[event.outcome][event.verb].Increment();
  const bool allowed = event.outcome == rpc::AccessOutcome::kAllowed;
  if (allowed && audit_ != ops::Audit::kAll) return;
  const auto held_back = allowed ? std::optional<uint64_t>(0) : Pass(event.who);
  if (!held_back) return;
  ops::Info("access", {{"decision", kOutcomes[static_cast<size_t>(event.outcome)]},
                       {"who", event.who},
                       {"peer", event.peer},
                       {"verb", event.verb ? access::NameOf(*event.verb) : std::string_view("proof")},
                       {"namespace", event.ns},
                       {"key", event.key},
                       {"rule", event.rule},
                       {"problem", event.problem},
                       {"held_back", *held_back}});
}

std::optional<uint64_t> AuditLog::Pass(std::string_view who) {
  std::lock_guard lock(mu_);
  if (limits_.size() >= kMostCallers) limits_.clear();
  std::unique_ptr<ops::LogLimit>& limit = limits_[std::string(who)];
  if (limit == nullptr) limit = std::make_unique<ops::LogLimit>(kBetweenLines);
  const auto held_back = limit->Pass();
  return held_back && all_.Pass() ? held_back : std::nullopt;
}

}  // namespace distlock
