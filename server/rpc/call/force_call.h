// SPDX-License-Identifier: Apache-2.0
//
// ForceRelease: who holds the lock now is asked of the store, and each of them is taken from it by the lock's core. The answer
// waits for all. One line for the audit log, also when the caller does not wait. Thread and lifetime: see UnaryCall.
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
  // `who` asks: its address, and its name where it has shown one.
  explicit ForceReleaseCall(std::string who) : who_(std::move(who)) {}
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

  const std::string who_;

  // Set by Start; then only touched by the thread of the lock's shard.
  CallObserver* observer_ = nullptr;
  core::Duration store_timeout_{};
  core::LockName name_;
  std::string holder_id_;
  std::string reason_;
  uint64_t newest_ = 0;  // whoever is granted the lock later does not hold it "now"
  bool looked_ = false;
  bool more_ = false;   // than one look shows
  bool asked_ = false;  // the log has nothing of it yet
  core::RequestId last_request_ = 0;
  size_t unanswered_ = 0;
  std::vector<std::string> meant_;  // holder ids
  uint32_t released_ = 0;
  uint32_t unknown_ = 0;
  core::Refused why_;  // of the last one that is not known to be gone
};

}  // namespace distlock::rpc
