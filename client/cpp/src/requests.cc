// SPDX-License-Identifier: Apache-2.0
#include "requests.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>

#include "distlock/wire/times.h"

namespace distlock::internal {
namespace {

// The broker ends a bounded wait. When it stays silent, the client ends the wait itself after this much more time.
constexpr int64_t kAnswerGrace = 500'000'000;
constexpr int64_t kPatienceOfOneTry = 1'000'000'000;
constexpr int64_t kPatienceOfEndlessWait = 10'000'000'000;
constexpr int64_t kSmallestWait = 1'000'000;  // 0 would turn a bounded wait into one try

// Reasons for which a broker refuses a whole session. They tell the user more than "unreachable".
bool CameFromBroker(RefusalReason reason) {
  return reason == RefusalReason::kDraining || reason == RefusalReason::kQuotaExceeded ||
         reason == RefusalReason::kStoreUnavailable || reason == RefusalReason::kQuorumNotReached;
}

std::string Millis(int64_t ns) { return absl::StrCat(ns / 1'000'000, " ms"); }

// With its request_id, and with max_wait in each lock.
size_t BytesOf(const Request& request) {
  size_t bytes = 2 * kCommandBytes;
  for (const LeasePtr& lease : request.leases) bytes += lease->spec->wire_bytes + kCommandBytes / 2;
  return bytes;
}

// Specs that are each within their limit can together exceed that of a message.
Refusal TooLarge(size_t bytes, size_t most) {
  Refusal refusal{.reason = RefusalReason::kInvalidArgument,
                  .message = absl::StrCat("the locks take ", bytes, " bytes together, of at most ", most,
                                          "; ask for fewer, or shorten their metadata")};
  refusal.field_problems.push_back({"acquire.locks", refusal.message});
  return refusal;
}

}  // namespace

Refusal CancelledRefusal() { return {.reason = RefusalReason::kCancelled, .message = "cancelled by the caller"}; }

Refusal ClosedRefusal() {
  return {.reason = RefusalReason::kClientClosed, .message = "the Client was destroyed; make a new one"};
}

RequestPtr Requests::Add(std::span<const SpecPtr> specs, std::optional<Duration> max_wait, AcquireCallback answer,
                         int64_t now_ns, Effects& fx) {
  auto request = std::make_shared<Request>();
  int64_t id = sessions_.TakeIds(specs.size());
  for (const SpecPtr& spec : specs) request->leases.push_back(std::make_shared<Lease>(id++, spec, request.get()));
  if (specs.size() > 1) {
    const std::stop_source any;
    for (const LeasePtr& lease : request->leases) lease->any = any;
  }
  request->answer = std::move(answer);
  request->asked_ns = now_ns;
  request->one_try = max_wait && *max_wait <= Duration::zero();
  if (max_wait && !request->one_try) request->wait_until_ns = AddNs(now_ns, max_wait->count());
  waiting_.emplace(request->id(), request);
  const auto bad = std::find_if(specs.begin(), specs.end(), [](const SpecPtr& spec) { return spec->problem; });
  if (sessions_.closed) {
    Refuse(*request, ClosedRefusal(), fx);
  } else if (bad != specs.end()) {
    Refuse(*request, *(*bad)->problem, fx);
  } else {
    if (!sessions_.current().opened) request->stranded_ns = now_ns;
    Schedule(*request, GivenUpAt(*request));
    if (sessions_.current().usable()) Send(*request, now_ns, fx);
  }
  return request;
}

LeasePtr Requests::Find(int64_t id) const {
  const auto after = waiting_.upper_bound(id);
  if (after == waiting_.begin()) return nullptr;
  const auto& [first, request] = *std::prev(after);
  const auto number = static_cast<size_t>(id - first);
  return number < request->leases.size() ? request->leases[number] : nullptr;
}

std::vector<RequestPtr> Requests::All() const {
  std::vector<RequestPtr> all;
  for (const auto& [id, request] : waiting_) all.push_back(request);
  return all;
}

RequestPtr Requests::Remove(Request& request) {
  Schedule(request, kNever);
  const auto found = waiting_.find(request.id());
  RequestPtr answered = std::move(found->second);
  waiting_.erase(found);
  answered->answered = true;
  return answered;
}

void Requests::Deliver(Request& request, int64_t now_ns, Effects& fx) {
  for (const LeasePtr& lease : request.leases) {
    if (lease->phase != Lease::Phase::kGranted || now_ns >= lease->deadline_ns) return;
  }
  const RequestPtr answered = Remove(request);
  for (const LeasePtr& lease : answered->leases) held_.Add(lease);
  fx.Answer(answered->answer, [answered] { std::exchange(answered->answer, nullptr)(answered->leases); });
}

void Requests::Refuse(Request& request, Refusal refusal, Effects& fx) {
  const RequestPtr answered = Remove(request);
  for (const LeasePtr& lease : answered->leases) {
    lease->phase = Lease::Phase::kEnded;
    lease->request = nullptr;
  }
  fx.Answer(std::move(answered->answer), std::move(refusal));
}

void Requests::Withdraw(const Request& request) {
  Link* const link = request.link();
  if (link == nullptr) return;
  for (const LeasePtr& lease : request.leases) {  // each: the grants of some may be on their way
    if (lease->phase == Lease::Phase::kGranted) held_.SendRelease(*link, lease->id, lease);
    if (lease->phase != Lease::Phase::kWaiting) continue;
    link->Add(0, [id = lease->id](v1::SessionCommand& command) { command.mutable_cancel()->set_acquire_id(id); });
  }
}

void Requests::Strand(Request& request, int64_t now_ns) {
  request.Unsend();
  request.stranded_ns = std::min(request.stranded_ns, now_ns);
  Schedule(request, GivenUpAt(request));
}

void Requests::Arrive(Request& request) {
  request.stranded_ns = kNever;
  Schedule(request, GivenUpAt(request));
}

void Requests::Send(Request& request, int64_t now_ns, Effects& fx) {
  Link& link = sessions_.current();
  if (held_.IsHeldElsewhere(request.leases.front()->spec->wire)) return;
  const size_t bytes = BytesOf(request);
  if (bytes > link.message_bytes) {
    // Until the broker has told its limit, such a request is held back.
    if (link.opened) Refuse(request, TooLarge(bytes, link.message_bytes), fx);
    return;
  }
  for (const LeasePtr& lease : request.leases) lease->link = &link;
  const int64_t left_ns = request.wait_until_ns == kNever ? 0 : std::max(request.wait_until_ns - now_ns, kSmallestWait);
  auto write = [this, asked = waiting_.at(request.id()), left_ns](v1::SessionCommand& command) {
    v1::AcquireLocks& acquire = *command.mutable_acquire();
    // Keeps the place in the queue, to whichever broker it is sent. One try has none.
    if (!asked->one_try) acquire.set_request_id(absl::StrCat(options_.request_prefix, asked->id()));
    for (const LeasePtr& lease : asked->leases) {
      v1::LockSpec& lock = *acquire.add_locks();
      lock = lease->spec->wire;
      if (asked->one_try || left_ns > 0) *lock.mutable_max_wait() = wire::ToProto(Duration(left_ns));
    }
  };
  link.Add(request.id(), std::move(write), bytes);
}

void Requests::SendUnsent(int64_t now_ns, Effects& fx) {
  if (!sessions_.current().usable()) return;
  for (const RequestPtr& request : All()) {
    if (request->link() == nullptr) Send(*request, now_ns, fx);
  }
}

void Requests::Leave(Link& link) {
  link.Goodbye();
  for (const auto& [id, request] : waiting_) {
    if (request->link() == &link) request->Unsend();
  }
}

void Requests::Schedule(Request& request, int64_t at_ns) {
  if (at_ns == request.given_up_at_ns) return;
  if (request.given_up_at_ns != kNever) timeouts_.erase({request.given_up_at_ns, request.id()});
  request.given_up_at_ns = at_ns;
  if (at_ns != kNever) timeouts_.emplace(at_ns, request.id());
}

int64_t Requests::GivenUpAt(const Request& request) const {
  if (request.stranded_ns == kNever) return AddNs(request.wait_until_ns, kAnswerGrace);
  int64_t patience_ns = options_.unreachable_timeout_ns;
  if (patience_ns <= 0) {
    const bool endless = request.wait_until_ns == kNever;
    patience_ns = request.one_try ? kPatienceOfOneTry : endless ? kPatienceOfEndlessWait : kNever;
  }
  return std::min(request.wait_until_ns, AddNs(request.stranded_ns, patience_ns));
}

void Requests::TimeOut(int64_t now_ns, Effects& fx) {
  while (wake_ns() <= now_ns) {
    Request& request = *waiting_.at(timeouts_.begin()->second);
    Refusal refusal{.reason = RefusalReason::kWaitTimeout};
    if (request.stranded_ns != kNever) {
      refusal = Unreachable(request.stranded_ns, now_ns);
    } else {
      refusal.message = absl::StrCat("no answer within max_wait of ", Millis(request.wait_until_ns - request.asked_ns));
    }
    refusal.waited = Duration(now_ns - request.asked_ns);
    Withdraw(request);
    Refuse(request, std::move(refusal), fx);
  }
}

Refusal Requests::Unreachable(int64_t since_ns, int64_t now_ns) const {
  Refusal refusal = last_failure.value_or(Refusal{});
  if (!CameFromBroker(refusal.reason)) {
    refusal.reason = RefusalReason::kUnreachable;
    refusal.cause = refusal.message.empty() ? "no answer" : refusal.message;
  }
  refusal.message = absl::StrCat("no broker at ", options_.address, " took it within ", Millis(now_ns - since_ns),
                                 refusal.message.empty() ? "" : ": ", refusal.message,
                                 "; check that distlockd runs there, or set DISTLOCK_SERVER");
  return refusal;
}

}  // namespace distlock::internal
