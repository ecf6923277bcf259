// SPDX-License-Identifier: Apache-2.0
//
// ForceRelease: reads the holders of the lock from the store, and has the lock's core take it from each of them. The
// answer waits for all of them. Each call makes one line of the audit log, also when the caller has left. Thread and
// lifetime: see UnaryCall.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/messages.h"
#include "distlock/v1/admin_service.pb.h"
#include "rpc/call/unary_call.h"

namespace distlock::rpc {

class ForceReleaseCall final : public UnaryCall {
 public:
  ~ForceReleaseCall() override;

 private:
  void Start(const grpc::ByteBuffer& request) override;
  void OnEvent(core::Event& event) override;

  void Look();
  void OnHolders(const absl::StatusOr<store::LockView>& view);
  bool IsMeant(const core::HolderView& holder) const;
  void Finish();
  void RefuseAll(const v1::Refusal& refusal);
  void Audit(std::string outcome);

  // Set by Start; then used only by the thread that has the turn of the lock's shard.
  CallObserver* observer_ = nullptr;
  std::string caller_;  // its address, and what it has proven to be
  core::Duration store_timeout_{};
  core::LockName name_;
  std::string holder_id_;
  std::string reason_;
  uint64_t newest_ = 0;  // the token at the first look; later grants are left alone
  bool looked_ = false;
  bool more_ = false;   // the lock has more holders than one look shows
  bool asked_ = false;  // a valid request that is not in the audit log yet
  core::RequestId last_request_ = 0;
  size_t unanswered_ = 0;
  std::vector<std::string> meant_;  // ids of the holders that lose the lock; "block" for a block
  uint32_t released_ = 0;
  uint32_t unknown_ = 0;
  core::Refused why_;  // for the last holder whose outcome is unknown: the reason
};

}  // namespace distlock::rpc
