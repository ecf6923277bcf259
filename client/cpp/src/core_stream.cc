// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/match.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core.h"
#include "distlock/wire/bearer.h"
#include "tls_channel.h"

namespace distlock::internal {
namespace {

// Short, because leases wait for a session that adopts them, and their last promises run out.
constexpr int64_t kPauseWhileMoving = 200'000'000;

}  // namespace

void Core::Run() {
  bool last = false;
  while (!last) {
    timer_.Wait();
    Effects fx;
    std::array<Stream*, LockTable::kLinks> lapsed{};
    std::array<bool, LockTable::kLinks> looks{};
    bool start = false;
    {
      MutexLock lock(&mu_);
      fx = std::exchange(posted_, {});
      last = thread_ended_ = closing_;
      if (!last) {
        const int64_t now_ns = BootNow();
        armed_ns_ = kNever;
        for (int link = 0; link < LockTable::kLinks; ++link) {
          lapsed[static_cast<size_t>(link)] = BreakIfLapsed(link, now_ns, fx);
        }
        table_.Tick(now_ns, fx);
        for (int link = 0; link < LockTable::kLinks; ++link) {
          looks[static_cast<size_t>(link)] = LineOf(link).stream != nullptr && table_.LooksForProof(link);
        }
        FollowTable(fx);
        start = wanted_ && LineOf(present_).streams == 0 && now_ns >= reconnect_at_ns_;
        Arm();
      }
    }
    for (Stream* stream : lapsed) {
      if (stream != nullptr) CancelStream(stream);
    }
    for (int link = 0; link < LockTable::kLinks; ++link) {
      if (looks[static_cast<size_t>(link)]) ShowProof(link);
    }
    Tell(fx);
    if (start) StartStream();
  }
}

void Core::ShowProof(int link) {
  const Stream* stream = nullptr;
  std::string address;
  {
    MutexLock lock(&mu_);
    stream = LineOf(link).stream;
    if (stream == nullptr) return;
    address = addresses_.at(LineOf(link).broker);
  }
  const auto proof = wire::BearerFor(address);  // reads a file
  MutexLock lock(&mu_);
  if (LineOf(link).stream == stream) table_.Show(proof, link);
}

Stream* Core::BreakIfLapsed(int link, int64_t now_ns, Effects& fx) {
  Stream* const stream = LineOf(link).stream;
  if (stream == nullptr || !table_.Lapsed(now_ns, link)) return nullptr;
  ++stream->use.operations;
  const char* const why = table_.opened(link) ? "the broker was not heard for the whole validity"
                                              : "no answer to Open within the connect timeout";
  Break(link, EndCause::kLapsed, why, now_ns, fx);
  return stream;
}

void Core::StartStream() {
  std::unique_ptr<Batch> first;
  Stream* stream = nullptr;
  size_t broker = 0;
  std::string address;
  const auto claim = options_.ends_with_process ? ClaimThisProcess() : std::nullopt;
  {
    MutexLock lock(&mu_);
    stream = transport_->NewStream(shared_from_this(), present_);
    broker = addresses_.present();
    address = addresses_.at(broker);
    const int64_t now_ns = BootNow();
    table_.OnStarted(now_ns, absl::StartsWith(address, "unix:") ? claim : std::nullopt);
    first = table_.Pack(now_ns, present_);
    Line& line = LineOf(present_);
    line = {.stream = stream, .streams = line.streams + 1, .broker = broker};
    reconnect_at_ns_ = kNever;
    Arm();
  }
  ShowProof(stream->link());  // the one that the call will show
  transport_->Start(stream, broker, std::move(first));
}

void Core::Flush(bool will_wait) {
  struct {
    Stream* stream = nullptr;
    std::unique_ptr<Batch> batch;
  } ready[LockTable::kLinks];
  bool held_up = false;
  {
    MutexLock lock(&mu_);
    for (int link = 0; link < LockTable::kLinks; ++link) {
      Stream* const stream = LineOf(link).stream;
      if (stream == nullptr) continue;
      if (stream->use.writing) {
        held_up = held_up || table_.HasToSend(link);
        continue;
      }
      auto batch = table_.Pack(BootNow(), link);
      if (batch == nullptr) continue;
      stream->use.writing = true;
      ++stream->use.operations;
      ready[link] = {stream, std::move(batch)};
    }
  }
  for (auto& [stream, batch] : ready) {
    if (stream != nullptr) stream->Write(std::move(batch));
  }
  if (held_up && !will_wait && waiting_ != nullptr) waiting_->Attend();
}

void Core::OnResponse(Stream* stream, const v1::SessionResponse& response, Effects& fx) {
  const int link = stream->link();
  std::optional<std::string> opened_at;
  {
    MutexLock lock(&mu_);
    if (stream != LineOf(link).stream) return;
    const int64_t now_ns = BootNow();
    const bool was_open = table_.opened(link);
    for (const v1::SessionEvent& event : response.events()) table_.OnEvent(event, now_ns, fx, link);
    if (link == present_ && table_.acked()) {
      reconnects_.Reset();
      addresses_.Succeed();
    }
    if (!was_open && table_.opened(link)) {
      opened_at = addresses_.at(LineOf(link).broker);
      Log(fx, LogLevel::kInfo, "connected to ", *opened_at);
    }
    FollowTable(fx);
    Arm();
  }
  if (opened_at) lookups_.Follow(*opened_at);
  TellOnCallThread(fx, stream->SharesThread());
}

void Core::OnWritten(Stream* stream, bool ok) {
  std::unique_ptr<Batch> written = stream->TakeWritten();
  bool unused = false;
  {
    MutexLock lock(&mu_);
    table_.Recycle(std::move(written), stream->link());
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
    MutexLock lock(&mu_);
    const int link = stream->link();
    if (stream == LineOf(link).stream) {
      Break(link, EndCause::kDisconnected, "the stream to the broker ended", BootNow(), fx);
    }
    writing = stream->use.writing;
    unused = stream->use.Ends();
    Arm();
  }
  // A write into a dead stream may take minutes to fail, and OnDone waits for it.
  const bool shares_thread = stream->SharesThread();
  if (writing) stream->Cancel();
  if (unused) stream->AllowFinish();
  TellOnCallThread(fx, shares_thread);
}

void Core::OnStreamDone(int link, const grpc::Status& status, bool shares_thread) {
  Effects fx;
  {
    MutexLock lock(&mu_);
    --LineOf(link).streams;
    if (!LineOf(link).left) PlanReconnect(status, fx);
    Arm();
  }
  TellOnCallThread(fx, shares_thread);
}

void Core::PlanReconnect(const grpc::Status& status, Effects& fx) {
  std::optional<Duration> asked_for;
  bool another_may_do = true;
  if (!status.ok()) {
    Refusal why = ToRefusal(status);
    why.message = ConnectFailure(addresses_.at(addresses_.present()), why.message);
    asked_for = why.retry_after;
    another_may_do = why.reason == RefusalReason::kUnreachable || why.reason == RefusalReason::kDraining;
    Log(fx, LogLevel::kWarning, "broker ", addresses_.at(addresses_.present()), ": ", why.message);
    table_.OnStatus(std::move(why), fx);
  }
  const bool at_once = addresses_.Next() && another_may_do;
  int64_t pause_ns = at_once ? 0 : reconnects_.Next(asked_for).count();
  if (table_.moving()) pause_ns = std::min(pause_ns, kPauseWhileMoving);
  reconnect_at_ns_ = AddNs(BootNow(), pause_ns);
  Log(fx, LogLevel::kDebug, "next attempt at ", addresses_.at(addresses_.present()), " in ", pause_ns / 1'000'000,
      " ms");
}

void Core::FollowTable(Effects& fx) {
  if (table_.present() == present_) return;
  const std::string from = addresses_.at(LineOf(present_).broker);
  LineOf(present_).left = true;
  present_ = table_.present();
  addresses_.Next();
  reconnect_at_ns_ = 0;
  Log(fx, LogLevel::kInfo, "leaves ", from, " for ", addresses_.at(addresses_.present()));
}

void Core::Break(int link, EndCause cause, const std::string& why, int64_t now_ns, Effects& fx) {
  Line& line = LineOf(link);
  std::exchange(line.stream, nullptr)->use.broken = true;
  const std::string message = absl::StrCat(why, " (", addresses_.at(line.broker), ")");
  Log(fx, LogLevel::kWarning, message);
  table_.OnBroken(cause, message, now_ns, fx, link);
  FollowTable(fx);
}

void Core::CancelStream(Stream* stream) {
  stream->Cancel();
  bool unused = false;
  {
    MutexLock lock(&mu_);
    --stream->use.operations;
    unused = stream->use.Ends();
  }
  if (unused) stream->AllowFinish();
}

void Core::Arm() {
  int64_t at_ns = table_.wake_ns();
  if (wanted_ && LineOf(present_).streams == 0) at_ns = std::min(at_ns, reconnect_at_ns_);
  if (closing_ || at_ns >= armed_ns_) return;
  armed_ns_ = at_ns;
  timer_.Set(at_ns);
}

void Core::WakeThread() {
  armed_ns_ = 0;
  timer_.Set(0);
}

}  // namespace distlock::internal
