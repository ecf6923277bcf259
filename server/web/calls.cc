// SPDX-License-Identifier: Apache-2.0
#include "web/calls.h"

#include <grpcpp/channel.h>

#include <utility>
#include <vector>

namespace distlock::web {

// The target of the queue's tags.
class Calls::Operation : public std::enable_shared_from_this<Operation> {
 public:
  virtual ~Operation() = default;
  // The operation that was started last has completed.
  virtual void Completed(bool ok) = 0;
  // Ends the call soon, with CANCELLED.
  virtual void Abort() { context_.TryCancel(); }

 protected:
  Operation(Calls& calls, const access::PeerFacts& caller) : calls_(calls) { calls.pass_.Sign(caller, &context_); }

  Calls& calls_;
  grpc::ClientContext context_;
};

class Calls::Unary final : public Operation, public Call {
 public:
  Unary(Calls& calls, const access::PeerFacts& caller, Done done) : Operation(calls, caller), done_(std::move(done)) {}

  void Begin(const std::string& method, const grpc::ByteBuffer& request) {
    reader_ = calls_.stub_.PrepareUnaryCall(&context_, method, request, &calls_.queue_);
    reader_->StartCall();
    reader_->Finish(&answer_, &status_, static_cast<Operation*>(this));
  }
  void Completed(bool) override {
    std::exchange(done_, nullptr)(status_, answer_);
    calls_.Forget(this);
  }
  void Cancel() override { Abort(); }

 private:
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader_;
  grpc::ByteBuffer answer_;
  grpc::Status status_;
  Done done_;
};

// One operation at a time: start, write the request, read each answer, finish.
class Calls::Stream final : public Operation, public StreamingCall {
 public:
  Stream(Calls& calls, const access::PeerFacts& caller, const grpc::ByteBuffer& request, Answered answer, Ended end)
      : Operation(calls, caller), request_(request), answered_(std::move(answer)), end_(std::move(end)) {}

  void Begin(const std::string& method) {
    stream_ = calls_.stub_.PrepareCall(&context_, method, &calls_.queue_);
    stream_->StartCall(Tag());
  }
  void Completed(bool ok) override {
    if (stage_ == Stage::kFinish) {
      std::exchange(answered_, nullptr);
      std::exchange(end_, nullptr)(status_);
      return calls_.Forget(this);
    }
    if (!ok) {
      stage_ = Stage::kFinish;
      return stream_->Finish(&status_, Tag());
    }
    if (stage_ == Stage::kStart) {
      stage_ = Stage::kWrite;
      return stream_->WriteLast(request_, grpc::WriteOptions(), Tag());
    }
    const bool answered = std::exchange(stage_, Stage::kRead) == Stage::kRead;
    // Its own: as soon as the stream is paused, another thread may read the next one.
    grpc::ByteBuffer answer;
    answer.Swap(&answer_);
    if (answered && Pause()) return answered_(std::static_pointer_cast<Stream>(shared_from_this()), answer);
    stream_->Read(&answer_, Tag());
  }
  void ReadNext() override {
    {
      std::lock_guard lock(mu_);
      if (!std::exchange(paused_, false)) return;
    }
    stream_->Read(&answer_, Tag());
  }
  void Cancel() override { Abort(); }
  void Abort() override {
    {
      std::lock_guard lock(mu_);
      aborted_ = true;
    }
    Operation::Abort();
    // Only an operation finds the end.
    ReadNext();
  }

 private:
  enum class Stage { kStart, kWrite, kRead, kFinish };
  void* Tag() { return static_cast<Operation*>(this); }
  // False: nobody wants more answers.
  bool Pause() {
    std::lock_guard lock(mu_);
    paused_ = !aborted_;
    return paused_;
  }

  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  const grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  grpc::Status status_;
  Answered answered_;
  Ended end_;
  Stage stage_ = Stage::kStart;

  // Guarded by mu_.
  std::mutex mu_;
  bool paused_ = false;  // no operation is under way until ReadNext
  bool aborted_ = false;
};

Calls::Calls(const rpc::InsidePass& pass) : pass_(pass), stub_(pass.channel), thread_([this] { Run(); }) {}

Calls::~Calls() {
  std::vector<std::shared_ptr<Operation>> open;
  {
    std::lock_guard lock(mu_);
    open.assign(open_.begin(), open_.end());
  }
  for (const auto& operation : open) operation->Abort();
  open.clear();
  {
    // A queue that is shut down takes no more operations, and a stream that ends needs one.
    std::unique_lock lock(mu_);
    none_.wait(lock, [this] { return open_.empty(); });
  }
  queue_.Shutdown();
  thread_.join();
}

void Calls::AwaitNone(std::chrono::milliseconds patience) {
  std::unique_lock lock(mu_);
  none_.wait_for(lock, patience, [this] { return open_.empty(); });
}

std::shared_ptr<Call> Calls::Start(const std::string& method, const access::PeerFacts& caller,
                                   const grpc::ByteBuffer& request, Done done) {
  auto call = std::make_shared<Unary>(*this, caller, std::move(done));
  Keep(call);
  call->Begin(method, request);
  return call;
}

std::shared_ptr<StreamingCall> Calls::StartStream(const std::string& method, const access::PeerFacts& caller,
                                                  const grpc::ByteBuffer& request, Answered answer, Ended end) {
  auto call = std::make_shared<Stream>(*this, caller, request, std::move(answer), std::move(end));
  Keep(call);
  call->Begin(method);
  return call;
}

void Calls::Keep(const std::shared_ptr<Operation>& operation) {
  std::lock_guard lock(mu_);
  open_.insert(operation);
}

void Calls::Forget(Operation* operation) {
  std::shared_ptr<Operation> last = operation->shared_from_this();  // its end comes without mu_
  std::lock_guard lock(mu_);
  open_.erase(last);
  if (open_.empty()) none_.notify_all();
}

void Calls::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<Operation*>(tag)->Completed(ok);
}

}  // namespace distlock::web
