// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "core.h"

namespace distlock::internal {

void Core::Run() {
  while (true) {
    timer_.Wait();
    Effects fx;
    Stream* lapsed = nullptr;
    bool start = false;
    {
      absl::MutexLock lock(&mu_);
      if (closing_) return;
      const int64_t now_ns = BootNow();
      armed_ns_ = kNever;
      fx.stopped.swap(to_stop_);
      if (stream_ != nullptr && table_.Lapsed(now_ns)) {
        lapsed = stream_;
        ++lapsed->use.count;
        const char* const why = table_.opened() ? "the broker was not heard for the whole validity"
                                                : "no answer to Open within the connect timeout";
        Break(EndCause::kLapsed, why, now_ns, fx);
      }
      table_.Tick(now_ns, fx);
      start = streams_ == 0 && now_ns >= reconnect_at_ns_;
      Arm();
    }
    if (lapsed != nullptr) CancelAndLetGo(lapsed);
    Tell(fx, true);
    if (start) StartStream();
  }
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
    ++stream->use.count;
  }
  stream->Write(std::move(batch));
}

void Core::OnResponse(Stream* stream, const v1::SessionResponse& response, Effects& fx) {
  {
    absl::MutexLock lock(&mu_);
    if (stream != stream_) return;
    const int64_t now_ns = BootNow();
    for (const v1::Event& event : response.events()) table_.OnEvent(event, now_ns, fx);
    if (table_.acked()) failures_ = 0;
    Arm();
  }
  Tell(fx, true);
}

void Core::OnWritten(Stream* stream, bool ok) {
  std::unique_ptr<Batch> written = stream->TakeWritten();
  bool let_go = false;
  {
    absl::MutexLock lock(&mu_);
    table_.Recycle(std::move(written));
    stream->use.writing = false;
    --stream->use.count;
    let_go = LetGo(stream);
  }
  if (let_go) {
    stream->LetGo();
  } else if (ok) {
    Flush();
  }
}

void Core::OnReadEnd(Stream* stream) {
  Effects fx;
  bool let_go = false;
  bool writing = false;
  {
    absl::MutexLock lock(&mu_);
    if (stream == stream_) Break(EndCause::kDisconnected, "the stream to the broker ended", BootNow(), fx);
    writing = stream->use.writing;
    let_go = LetGo(stream);
    Arm();
  }
  // A write into a dead stream may take minutes to be told so; OnDone waits for it.
  if (writing) stream->Cancel();
  if (let_go) stream->LetGo();
  Tell(fx, true);
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
    reconnect_at_ns_ = AddNs(BootNow(), Pause(asked_for));
    Arm();
  }
  Tell(fx, true);
}

bool Core::LetGo(Stream* stream) {
  if (!stream->use.broken || stream->use.count > 0) return false;
  return std::exchange(stream->use.held, false);
}

void Core::Break(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx) {
  std::exchange(stream_, nullptr)->use.broken = true;
  table_.OnBroken(cause, absl::StrCat(why, " (", options_.address, ")"), now_ns, fx);
}

void Core::CancelAndLetGo(Stream* stream) {
  stream->Cancel();
  bool let_go = false;
  {
    absl::MutexLock lock(&mu_);
    --stream->use.count;
    let_go = LetGo(stream);
  }
  if (let_go) stream->LetGo();
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

int64_t Core::Pause(const std::optional<Duration>& asked_for) {
  const int64_t most_ns = options_.reconnect_max.count();
  const int64_t bound_ns =
      failures_ > 20 ? most_ns : std::min(options_.reconnect_initial.count() << failures_, most_ns);
  ++failures_;
  const int64_t random_ns = std::uniform_int_distribution<int64_t>(0, std::max<int64_t>(bound_ns, 0))(jitter_);
  return AddNs(asked_for ? std::min(asked_for->count(), most_ns) : 0, random_ns);
}

}  // namespace distlock::internal
