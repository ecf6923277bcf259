// SPDX-License-Identifier: Apache-2.0
#include "rpc/call/force_call.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/refusal.h"
#include "contract/show.h"
#include "contract/validate.h"

namespace distlock::rpc {
namespace {

constexpr size_t kMaxReasonBytes = 256;
constexpr size_t kHolderIdDigits = 16;
constexpr size_t kLoggedHolders = 16;

}  // namespace

ForceReleaseCall::~ForceReleaseCall() {
  if (asked_) Audit(absl::StrCat("not known: the caller has left, ", released_, " confirmed"));
}

void ForceReleaseCall::Start(const grpc::ByteBuffer& bytes) {
  v1::ForceReleaseRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  name_ = check.Name(request.namespace_(), request.key(), "");
  check.Text(request.reason(), kMaxReasonBytes, "reason");
  holder_id_ = request.holder_id();
  const bool is_id =
      holder_id_.size() == kHolderIdDigits && holder_id_.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!holder_id_.empty() && !is_id) {
    check.Bad("holder_id", "is none of this service; pass the holder_id that GetLock shows, or none for all holders");
  }
  if (!check.ok()) return void(Refuse(check.Refusal(), name_));
  const auto verb = access::Verb::kForceRelease;
  if (Denied(frontend().authorizer.Check(subject(), verb, request.namespace_(), request.key()), name_)) return;
  caller_ = CallerText();
  reason_ = request.reason();
  observer_ = frontend().observer;
  store_timeout_ = frontend().limits.store_timeout;
  asked_ = true;
  // Attaches this call to the shard now. The holders are known later, when the call may have ended.
  AskSurely(shards().ShardOf(name_), core::Tick{});
  Look();
}

void ForceReleaseCall::Look() {
  auto self = std::static_pointer_cast<ForceReleaseCall>(shared_from_this());
  shards().Inspect(name_, 1, store_timeout_,
                   [self](const absl::StatusOr<store::LockView>& view) { self->OnHolders(view); });
}

bool ForceReleaseCall::IsMeant(const core::HolderView& holder) const {
  if (holder.token > newest_) return false;
  return holder_id_.empty() || (!contract::IsBlocked(holder.owner) && contract::HolderIdOf(holder.owner) == holder_id_);
}

void ForceReleaseCall::OnHolders(const absl::StatusOr<store::LockView>& view) {
  if (answered()) return;
  if (!view.ok()) return RefuseAll(contract::StoreRefusal(view.status(), name_));
  if (!std::exchange(looked_, true)) {
    for (const core::HolderView& holder : view->holders) newest_ = std::max(newest_, holder.token);
    newest_ = std::max(newest_, view->last_token);
  }
  more_ = view->holder_count > view->holders.size();
  const int shard = shards().ShardOf(name_);
  std::vector<core::Input> inputs;
  for (const core::HolderView& holder : view->holders) {
    if (!IsMeant(holder)) continue;
    meant_.push_back(contract::IsBlocked(holder.owner) ? "block" : contract::HolderIdOf(holder.owner));
    inputs.emplace_back(core::ForceRelease{.session = session(),
                                           .request = ++last_request_,
                                           .name = name_,
                                           .owner = holder.owner,
                                           .token = holder.token,
                                           .broker_id = contract::ChannelBrokerOf(holder.info),
                                           .reason = reason_});
  }
  if (inputs.empty()) return Finish();
  unanswered_ = inputs.size();
  for (core::Input& input : inputs) shards().Post(shard, std::move(input));
}

void ForceReleaseCall::OnEvent(core::Event& event) {
  if (auto* refused = std::get_if<core::Refused>(&event)) {
    ++unknown_;
    why_ = std::move(*refused);
  } else if (const auto* released = std::get_if<core::Released>(&event)) {
    if (released->outcome == core::ReleaseOutcome::kReleased) ++released_;
  }
  if (unanswered_ == 0) return;
  if (--unanswered_ > 0) return;
  if (more_ && unknown_ == 0) return Look();
  Finish();
}

void ForceReleaseCall::Finish() {
  if (unknown_ > 0) {
    why_.cause = absl::StrCat(released_, " of ", meant_.size(),
                              " holders are confirmed to be gone; of the others it is not known: ", why_.cause,
                              "; look at the lock and ask again");
    return RefuseAll(contract::RefusalOf(why_, name_));
  }
  if (more_ && meant_.empty()) {
    return RefuseAll(contract::MakeRefusal(
        core::RefusalReason::kQuotaExceeded,
        absl::StrCat(contract::Show(name_), " has more holders than can be told apart; leave holder_id out to take ",
                     "it from all of them")));
  }
  Audit(absl::StrCat("released ", released_));
  v1::ForceReleaseResponse response;
  response.set_released(released_);
  Answer(response);
}

void ForceReleaseCall::RefuseAll(const v1::Refusal& refusal) {
  Audit(refusal.message());
  Refuse(refusal, name_);
}

void ForceReleaseCall::Audit(std::string outcome) {
  asked_ = false;
  if (observer_ == nullptr) return;
  std::string holders =
      holder_id_.empty() ? absl::StrJoin(meant_.begin(), meant_.begin() + std::min(meant_.size(), kLoggedHolders), ",")
                         : holder_id_;
  if (holder_id_.empty() && meant_.size() > kLoggedHolders)
    absl::StrAppend(&holders, ",... ", meant_.size(), " in all");
  observer_->OnForceRelease({.caller = caller_,
                             .name = name_,
                             .holders = std::move(holders),
                             .reason = reason_,
                             .outcome = std::move(outcome)});
}

}  // namespace distlock::rpc
