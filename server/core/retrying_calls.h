// SPDX-License-Identifier: Apache-2.0
//
// Requests of callers that one store command answers: Renew, Downgrade, Adopt and ForceRelease. The command may safely
// run twice, so it is sent again until it is answered or the caller's patience ends. This is what the four parts have
// in common; what is sent, what an answer means and how long to pause is theirs.
//
// Thread: the shard's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/container/btree_map.h"
#include "core/check.h"
#include "core/core_context.h"
#include "core/part.h"

namespace distlock::core {

// The state of one call. A derived record adds `request`: the message, with `session`, `request` and `name`.
struct RetryingCall : PartRecord {
  explicit RetryingCall(Part& of) : PartRecord(of) {}
  Instant until{};  // the end of the caller's patience
  OpId op = 0;      // the attempt in flight; 0: none
  int attempts = 0;
  std::string trouble;  // why the last attempt failed
};

template <typename Call>
class RetryingCalls : public PartOf<Call> {
 public:
  explicit RetryingCalls(CoreContext& core) : core_(core) {}

  // Sends all that have no attempt in flight.
  void OnStoreUp() override {
    for (auto& [caller, call] : calls_) {
      if (call->op == 0) Send(*call);
    }
  }
  bool IsIdle() const final { return calls_.empty(); }
  size_t Check() const final {
    for (const auto& [caller, call] : calls_) {
      const auto& request = call->request;
      DISTLOCK_CHECK(caller == std::make_pair(request.session, request.request) && &call->part == this);
      // Each is answered in time, and no attempt that was left may end it.
      DISTLOCK_CHECK(call->at <= call->until && (call->op == 0 || core_.IsInFlight(call->op, this)));
    }
    return calls_.size();
  }

  // Commands that were sent stand.
  void OnStreamEnd(SessionId session) override {
    const auto next = [&] { return calls_.lower_bound({session, 0}); };
    for (auto call = next(); call != calls_.end() && call->first.first == session; call = next()) {
      End(*call->second, /*is_answered=*/false);
    }
  }
  // The pause before the next attempt is over, or the caller's patience.
  void OnTimer(Call& call) override {
    if (core_.now < call.until) return Send(call);
    Refuse(call, RefusalReason::kStoreUnavailable, core_.WhyNoAnswer(call.trouble) + Doubt());
  }

 protected:
  ~RetryingCalls() = default;

  // Sends an attempt, or has it wait for the store. Must not end the call.
  virtual void Send(Call& call) = 0;
  // A caller that got no answer is told this as well.
  virtual const char* Doubt() const { return ""; }
  // The call is about to be forgotten. `is_answered`: not because its stream is over.
  virtual void OnEnd(const Call& /*call*/, bool /*is_answered*/) {}

  // Null: the caller's request is under way already.
  template <typename Request>
  Call* Begin(Request request, Duration patience) {
    auto& slot = calls_[{request.session, request.request}];
    if (slot != nullptr) return nullptr;
    slot = std::make_unique<Call>(*this);
    slot->serial = core_.NextSerial();
    slot->request = std::move(request);
    slot->until = core_.now + patience;
    return slot.get();
  }

  // Null: it has been answered or dropped.
  Call* Find(const Recipient& recipient) const {
    const auto found = calls_.find({recipient.session, recipient.request});
    return found == calls_.end() ? nullptr : found->second.get();
  }

  // The last call of the session that begins with this request or an earlier one. Null: there is none.
  Call* FindUpTo(const Recipient& recipient) const {
    const auto behind = calls_.upper_bound({recipient.session, recipient.request});
    if (behind == calls_.begin() || std::prev(behind)->first.first != recipient.session) return nullptr;
    return std::prev(behind)->second.get();
  }

  bool HasAnyOf(SessionId session) const {
    const auto found = calls_.lower_bound({session, 0});
    return found != calls_.end() && found->first.first == session;
  }

  // Registers an attempt that is sent now and is repeated after `timeout`. The caller passes the command to
  // CoreContext::Command.
  OpId BeginAttempt(Call& call, Duration timeout) {
    call.op = core_.SendOp(
        {.sender = this, .name = call.request.name, .recipient = {call.request.session, call.request.request}});
    ++call.attempts;
    RetryAt(call, core_.now + timeout);
    return call.op;
  }

  // Ends the attempt in flight, if any, without planning another: the store is down, and OnStoreUp begins the next.
  void AwaitStore(Call& call) {
    call.op = 0;
    RetryAt(call, kNever);
  }

  // An attempt has failed. Tries again after `least` and the back-off for so many `attempts`; if the store is down,
  // when it is up again.
  void RetryAfter(Call& call, const StoreReply& reply, int attempts, Duration least = Duration::zero()) {
    NoteTrouble(call, reply);
    call.op = 0;
    RetryAt(call, core_.store_up ? core_.now + least + core_.BackOff(attempts) : kNever);
  }
  // False: the answer does not say that something else is stored under the lock's name.
  bool RefuseForeignKey(Call& call, const StoreReply& reply) {
    if (!IsForeignKey(reply)) return false;
    Refuse(call, RefusalReason::kForeignKey, *TroubleOf(reply));
    return true;
  }

  // kNever: when the store is up again.
  void RetryAt(Call& call, Instant at) { core_.Arm(call, std::min(call.until, at)); }

  static void NoteTrouble(Call& call, const StoreReply& reply) {
    if (const std::string* const trouble = TroubleOf(reply)) call.trouble = *trouble;
  }

  // Tells the caller and forgets the call.
  template <typename T>
  void Answer(Call& call, T answer) {
    const Recipient recipient{call.request.session, call.request.request};
    if constexpr (std::is_same_v<T, Refused>) {
      core_.Refuse(recipient, call.request.name, std::move(answer));
    } else {
      core_.Tell(recipient, std::move(answer));
    }
    End(call);
  }

  // Forgets the call. Its caller is told elsewhere, or has gone.
  void End(Call& call, bool is_answered = true) {
    core_.timers.Cancel(call);
    OnEnd(call, is_answered);
    calls_.erase(std::make_pair(call.request.session, call.request.request));
  }

  virtual void Refuse(Call& call, RefusalReason reason, std::string cause) {
    Answer(call, Refused{.reason = reason, .cause = std::move(cause)});
  }

  CoreContext& core_;

 private:
  absl::btree_map<std::pair<SessionId, RequestId>, std::unique_ptr<Call>> calls_;
};

}  // namespace distlock::core
