// SPDX-License-Identifier: Apache-2.0
//
// ForceRelease: asks the store who holds the lock now, and has the lock's core take it from each of these holders. The
// answer waits for all of them. There is one line for the audit log, also when the caller has left. Thread and
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
  // `caller`: its address, and its name where the connection has proved one.
  explicit ForceReleaseCall(std::string caller) : caller_(std::move(caller)) {}
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

  const std::string caller_;

  // Set by Start; then used only by the thread that has the turn of the lock's shard.
  CallObserver* observer_ = nullptr;
  core::Duration store_timeout_{};
  core::LockName name_;
  std::string holder_id_;
  std::string reason_;
  uint64_t newest_ = 0;  // token at the first look: a later grant is not meant
  bool looked_ = false;
  bool more_ = false;   // the lock has more holders than one look shows
  bool asked_ = false;  // asked for, and not in the audit log yet
  core::RequestId last_request_ = 0;
  size_t unanswered_ = 0;
  std::vector<std::string> meant_;  // ids of the holders that it is taken from
  uint32_t released_ = 0;
  uint32_t unknown_ = 0;
  core::Refused why_;  // why the last unknown holder is not known to be gone
};

}  // namespace distlock::rpc
