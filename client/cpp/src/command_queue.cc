// SPDX-License-Identifier: Apache-2.0
#include "command_queue.h"

#include <utility>

#include "distlock/wire/times.h"

namespace distlock::internal {
namespace {

constexpr size_t kCommandBytes = 32;  // tags, ids and lengths around the content of a command, or of a lock in it

google::protobuf::ArenaOptions OptionsWith(char* block, size_t size) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = size;
  return options;
}

}  // namespace

Batch::Batch()
    : block_(new char[kFirstBlock]),
      arena_(OptionsWith(block_.get(), kFirstBlock)),
      message_(google::protobuf::Arena::CreateMessage<v1::SessionRequest>(&arena_)) {}

v1::SessionCommand* Batch::Add(size_t bytes) {
  bytes_ += bytes + kCommandBytes;
  return message_->add_commands();
}

void Batch::Beat(int64_t seq) {
  Add(0)->mutable_heartbeat()->set_seq(seq);
  must_leave_ = true;
}

void Batch::SayGoodbye() {
  Add(0)->mutable_goodbye();
  must_leave_ = true;
}

void Batch::Clear() {
  must_leave_ = false;
  arena_.Reset();
  message_ = google::protobuf::Arena::CreateMessage<v1::SessionRequest>(&arena_);
  bytes_ = 0;
}

void CommandQueue::Open(int64_t id, const std::string& label, int32_t generation,
                        const std::optional<ProcessClaim>& claim) {
  v1::SessionCommand* command = Add(label.size());
  command->set_id(id);
  command->mutable_open()->set_client(label);
  command->mutable_open()->set_generation(generation);
  if (!claim) return;
  command->mutable_open()->mutable_process()->set_boot_id(claim->boot_id);
  command->mutable_open()->mutable_process()->set_pidfd_inode(claim->pidfd_inode);
}

void CommandQueue::Acquire(int64_t id, std::span<const v1::LockSpec* const> locks, size_t bytes, int64_t max_wait_ns,
                           const std::string& request_id) {
  v1::SessionCommand* command = Add(bytes + request_id.size() + locks.size() * kCommandBytes);
  command->set_id(id);
  if (!request_id.empty()) command->mutable_acquire()->set_request_id(request_id);
  for (const v1::LockSpec* lock : locks) {
    v1::LockSpec* to = command->mutable_acquire()->add_locks();
    *to = *lock;
    if (max_wait_ns >= 0) *to->mutable_max_wait() = wire::ToProto(std::chrono::nanoseconds(max_wait_ns));
  }
}

void CommandQueue::Adopt(int64_t id, const Adoption& adoption) {
  v1::SessionCommand* command =
      Add(adoption.lock.ByteSizeLong() + adoption.lease_id.size() + adoption.request_id.size() + kCommandBytes);
  command->set_id(id);
  v1::AdoptLease& adopt = *command->mutable_adopt();
  adopt.set_lease_id(adoption.lease_id);
  *adopt.mutable_lock() = adoption.lock;
  if (adoption.downgraded) adopt.mutable_lock()->set_mode(v1::LOCK_MODE_SHARED);
  adopt.set_request_id(adoption.request_id);
  if (adoption.holds > 1) adopt.set_hold_count(static_cast<int32_t>(adoption.holds));
}

void CommandQueue::Release(int64_t id, int64_t acquire_id, bool lapsed) {
  v1::SessionCommand* command = Add(0);
  command->set_id(id);
  command->mutable_release()->set_acquire_id(acquire_id);
  command->mutable_release()->set_lapsed(lapsed);
}

void CommandQueue::Cancel(int64_t id, int64_t acquire_id) {
  v1::SessionCommand* command = Add(0);
  command->set_id(id);
  command->mutable_cancel()->set_acquire_id(acquire_id);
}

void CommandQueue::Downgrade(int64_t id, int64_t acquire_id) {
  v1::SessionCommand* command = Add(0);
  command->set_id(id);
  command->mutable_downgrade()->set_acquire_id(acquire_id);
}

void CommandQueue::Authenticate(int64_t id, const std::string& authorization) {
  v1::SessionCommand* command = Add(authorization.size());
  command->set_id(id);
  command->mutable_authenticate()->set_authorization(authorization);
}

void CommandQueue::Heartbeat(int64_t seq) {
  // Into the batch that leaves next, however full it is: the deadlines count from now.
  if (!HasNext()) waiting_.push_front(NewBatch());
  waiting_.front()->Beat(seq);
}

void CommandQueue::Goodbye() {
  size_t ahead = ahead_.count();
  size_t leave = 0;
  for (; leave < waiting_.size(); ++leave) {
    const size_t more = waiting_[leave]->commands();
    if (ahead > 0 && ahead + more > most_ahead_) break;
    ahead += more;
  }
  // The broker frees with the session what it has not heard of.
  while (waiting_.size() > leave) {
    Recycle(std::move(waiting_.back()));
    waiting_.pop_back();
  }
  if (waiting_.empty()) waiting_.push_back(NewBatch());
  waiting_.back()->SayGoodbye();
}

void CommandQueue::SetMessageBytes(int32_t message_bytes) {
  batch_bytes_ = BatchBytes(message_bytes > 0 ? static_cast<size_t>(message_bytes) : wire::kMostMessageBytes);
}

void CommandQueue::SetMostAhead(int32_t commands) {
  most_ahead_ = commands > 0 ? static_cast<size_t>(commands) : kMostAhead;
}

std::unique_ptr<Batch> CommandQueue::Take() {
  if (!HasNext()) return nullptr;
  std::unique_ptr<Batch> batch = TakeFirst();
  ahead_.Sent(batch->message());
  return batch;
}

std::unique_ptr<Batch> CommandQueue::TakeFirst() {
  std::unique_ptr<Batch> batch = std::move(waiting_.front());
  waiting_.pop_front();
  return batch;
}

void CommandQueue::Recycle(std::unique_ptr<Batch> batch) {
  if (batch == nullptr || spare_.size() >= kSpareBatches) return;
  batch->Clear();
  spare_.push_back(std::move(batch));
}

void CommandQueue::Clear() {
  while (!waiting_.empty()) Recycle(TakeFirst());
  ahead_.Clear();
  SetMessageBytes(0);
  SetMostAhead(0);
}

std::unique_ptr<Batch> CommandQueue::NewBatch() {
  if (spare_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> batch = std::move(spare_.back());
  spare_.pop_back();
  return batch;
}

v1::SessionCommand* CommandQueue::Add(size_t bytes) {
  const Batch* const last = waiting_.empty() ? nullptr : waiting_.back().get();
  if (last == nullptr || last->bytes() + bytes > batch_bytes_ || last->commands() >= most_ahead_) {
    waiting_.push_back(NewBatch());
  }
  return waiting_.back()->Add(bytes);
}

}  // namespace distlock::internal
