// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "core.h"

namespace distlock::internal {

void Core::Run() {
  bool last = false;
  while (!last) {
    timer_.Wait();
    Effects fx;
    Stream* lapsed = nullptr;
    bool start = false;
    {
      absl::MutexLock lock(&mu_);
      fx = std::exchange(posted_, {});
      last = thread_ended_ = closing_;
      if (!last) {
        const int64_t now_ns = BootNow();
        armed_ns_ = kNever;
        lapsed = BreakIfLapsed(now_ns, fx);
        table_.Tick(now_ns, fx);
        start = streams_ == 0 && now_ns >= reconnect_at_ns_;
        Arm();
      }
    }
    if (lapsed != nullptr) CancelStream(lapsed);
    Tell(fx);
    if (start) StartStream();
  }
}

Stream* Core::BreakIfLapsed(int64_t now_ns, Effects& fx) {
  if (stream_ == nullptr || !table_.Lapsed(now_ns)) return nullptr;
  Stream* const stream = stream_;
  ++stream->use.operations;
  const char* const why = table_.opened() ? "the broker was not heard for the whole validity"
                                          : "no answer to Open within the connect timeout";
  Break(EndCause::kLapsed, why, now_ns, fx);
  return stream;
}

void Core::StartStream() {
  grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
  Stream* const stream = new Stream(shared_from_this());
  std::unique_ptr<Batch> first;
  {
    absl::MutexLock lock(&mu_);
    const int64_t now_ns = BootNow();
    table_.OnStarted(now_ns);
    first = table_.Pack(now_ns);
    stream_ = stream;
    ++streams_;
    reconnect_at_ns_ = kNever;
    Arm();
  }
  stream->Start(*stub_, *call_thread_, std::move(first));
}

void Core::Flush() {
  Stream* stream = nullptr;
  std::unique_ptr<Batch> batch;
  {
    absl::MutexLock lock(&mu_);
    if (stream_ == nullptr || stream_->use.writing) return;
    batch = table_.Pack(BootNow());
    if (batch == nullptr) return;
    stream = stream_;
    stream->use.writing = true;
    ++stream->use.operations;
  }
  stream->Write(std::move(batch));
}

void Core::OnResponse(Stream* stream, const v1::SessionResponse& response, Effects& fx) {
  {
    absl::MutexLock lock(&mu_);
    if (stream != stream_) return;
    const int64_t now_ns = BootNow();
    for (const v1::SessionEvent& event : response.events()) table_.OnEvent(event, now_ns, fx);
    if (table_.acked()) reconnects_.Reset();
    Arm();
  }
  Tell(fx);
}

void Core::OnWritten(Stream* stream, bool ok) {
  std::unique_ptr<Batch> written = stream->TakeWritten();
  bool unused = false;
  {
    absl::MutexLock lock(&mu_);
    table_.Recycle(std::move(written));
    stream->use.writing = false;
    --stream->use.operations;
    unused = stream->use.Ends();
  }
  if (unused) {
    stream->AllowFinish();
  } else if (ok) {
    Flush();
  }
}

void Core::OnReadEnd(Stream* stream) {
  Effects fx;
  bool unused = false;
  bool writing = false;
  {
    absl::MutexLock lock(&mu_);
    if (stream == stream_) Break(EndCause::kDisconnected, "the stream to the broker ended", BootNow(), fx);
    writing = stream->use.writing;
    unused = stream->use.Ends();
    Arm();
  }
  // A write into a dead stream may take minutes to fail, and OnDone waits for it.
  if (writing) stream->Cancel();
  if (unused) stream->AllowFinish();
  Tell(fx);
}

void Core::OnStreamDone(const grpc::Status& status) {
  Effects fx;
  {
    absl::MutexLock lock(&mu_);
    --streams_;
    std::optional<Duration> asked_for;
    if (!status.ok()) {
      Refusal why = ToRefusal(status);
      asked_for = why.retry_after;
      table_.OnStatus(std::move(why), fx);
    }
    reconnect_at_ns_ = AddNs(BootNow(), reconnects_.Next(asked_for).count());
    Arm();
  }
  Tell(fx);
}

void Core::Break(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx) {
  std::exchange(stream_, nullptr)->use.broken = true;
  table_.OnBroken(cause, absl::StrCat(why, " (", options_.address, ")"), now_ns, fx);
}

void Core::CancelStream(Stream* stream) {
  stream->Cancel();
  bool unused = false;
  {
    absl::MutexLock lock(&mu_);
    --stream->use.operations;
    unused = stream->use.Ends();
  }
  if (unused) stream->AllowFinish();
}

void Core::Arm() {
  const int64_t at_ns = std::min(table_.wake_ns(), reconnect_at_ns_);
  if (closing_ || at_ns >= armed_ns_) return;
  armed_ns_ = at_ns;
  timer_.Set(at_ns);
}

void Core::WakeThread() {
  armed_ns_ = 0;
  timer_.Set(0);
}

}  // namespace distlock::internal
