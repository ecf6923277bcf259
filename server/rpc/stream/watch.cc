// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/watch.h"

#include <utility>

#include "contract/error_details.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "rpc/engine/wire.h"
#include "rpc/messages/status.h"
#include "rpc/stream/watched_locks.h"
#include "shard/boot_clock.h"

namespace distlock::rpc {

void WatchCall::Start() {
  v1::WatchLockRequest request;
  if (const auto problem = Parse(this->request(), &request)) {
    return Refuse(contract::MakeRefusal(core::RefusalReason::kInvalidArgument, *problem), StreamClose::kProtocol);
  }
  contract::Validator check(frontend_.limits);
  core::LockName name = check.Name(request.namespace_(), request.key(), "");
  if (!check.ok()) return Refuse(check.Refusal(), StreamClose::kFinished, name);
  const auto denied = frontend_.authorizer.Check(subject_, access::Verb::kWatch, request.namespace_(), request.key());
  if (denied) return Refuse(*denied, StreamClose::kDenied, name);

  bool posted = false;
  {
    std::lock_guard lock(mu_);
    if (ended()) return;
    name_ = std::move(name);
    const int shard = shards_.ShardOf(name_);
    posted = shards_.TryPost(shard, core::WatchLock{.session = session_, .request = 1, .name = name_}, session_,
                             shared_from_this());
    if (posted) shard_ = shard;
  }
  if (!posted) Refuse(contract::OverloadRefusal(), StreamClose::kQuota, name_);
}

std::optional<v1::Refusal> WatchCall::Unwelcome(Subject& subject) {
  core::LockName name;
  {
    std::lock_guard lock(mu_);
    name = name_;
  }
  if (name.empty()) return std::nullopt;  // Start asks by itself
  const auto [ns, key] = name.Decode();
  return frontend_.authorizer.Check(subject, access::Verb::kWatch, ns, key);
}

void WatchCall::EndShards() {
  if (shard_ >= 0) shards_.Post(shard_, core::StreamEnded{session_});
}

void WatchCall::OnEvents(int, std::vector<core::Notify> events) {
  {
    std::lock_guard lock(mu_);
    for (core::Notify& notify : events) {
      if (ended()) break;
      Take(std::move(notify.event));
    }
  }
}

// Under mu_.
void WatchCall::Take(core::Event event) {
  if (auto* changed = std::get_if<core::Changed>(&event)) {
    newest_ = Waiting{std::move(changed->view), shard::BootNow()};
  } else if (const auto* refused = std::get_if<core::Refused>(&event)) {
    Decide(ToStatus(contract::ErrorOf(contract::RefusalOf(*refused, name_), name_)), StreamClose::kFinished);
  } else if (std::holds_alternative<core::EndStream>(event)) {
    Decide(ToStatus(contract::ErrorOf(contract::DrainingRefusal(), name_)), StreamClose::kDrained);
  }
}

bool WatchCall::TakeNext() {
  if (!newest_) return false;
  writing_now_ = *std::move(newest_);
  newest_.reset();
  return true;
}

grpc::ByteBuffer WatchCall::Render() {
  const core::Duration age = shard::BootNow() - writing_now_.since;
  SubtractAge(&writing_now_.view, age);
  v1::WatchLockResponse response;
  *response.mutable_lock() = contract::LockOf(writing_now_.view);
  return Serialize(response);
}

}  // namespace distlock::rpc
