// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <utility>

#include "distlock/wire/bearer.h"
#include "tls_channel.h"

namespace distlock::internal {
namespace {

using By = Effects::By;

// Short, because leases wait for a session that adopts them, and their last promises run out.
constexpr int64_t kPauseWhileMoving = 200'000'000;

LockTable::Options OptionsFrom(const ClientOptions& options) {
  return {.address = options.address,
          .brokers = SplitAddresses(options.address).size(),
          .label = CleanLabel(options.client_label),
          .unreachable_timeout_ns = options.unreachable_timeout.count(),
          .connect_timeout_ns = options.connect_timeout.count(),
          .reissue_waits = options.reissue_waits,
          .on_draining = options.on_draining};
}

}  // namespace

Engine::Engine(ClientOptions options, const MakeTransport& make_transport)
    : options_(std::move(options)),
      addresses_(options_.address),
      lookups_(options_, options_.connect_at_once ? addresses_.all() : SplitAddresses(options_.address)),
      transport_(make_transport(options_, addresses_.all())),
      waiting_(transport_->waiting()),
      table_(OptionsFrom(options_)),
      wanted_(options_.connect_at_once),
      reconnects_(options_.reconnect_initial, options_.reconnect_max) {}

void Engine::Start() {
  thread_ = std::thread([self = shared_from_this()] { self->Run(); });
  MutexLock lock(&mu_);
  WakeThread();
}

void Engine::Close() {
  {
    MutexLock lock(&mu_);
    if (table_.closed()) return;
    table_.Close(BootNow(), posted_);
    WakeThread();
  }
  lookups_.Close();
  Flush();
  if (OnLibraryThread()) return thread_.detach();
  thread_.join();
  const auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return open_streams_ == 0; };
  std::array<StreamPtr, kLinks> streams;
  {
    MutexLock lock(&mu_);
    // A broker that has not even answered the Open holds no lock of this client and will not answer the goodbye.
    if (table_.opened()) mu_.AwaitFor(ended, options_.close_timeout);
    streams = streams_;
  }
  for (const StreamPtr& stream : streams) {
    if (stream != nullptr) stream->Cancel();
  }
  {
    MutexLock lock(&mu_);
    // A stream that has not ended keeps all that it needs until then.
    if (!mu_.AwaitFor(ended, options_.close_timeout)) return;
  }
  transport_.reset();
}

void Engine::Turn(Asker asker, Act act) {
  Effects fx;
  {
    MutexLock lock(&mu_);
    act(table_, BootNow(), fx);
    Arm();
  }
  if (asker == Asker::kProgram && waiting_ != nullptr) waiting_->Attend();
  // Before the callbacks, which may take long.
  if (!LibraryThread::RunsFor(this)) Flush(asker == Asker::kBlockedCaller);
  Post(fx.TakeFrom(By::kLibrary));
  fx.Run(options_);
}

void Engine::TurnQuietly(Act act) {
  MutexLock lock(&mu_);
  act(table_, BootNow(), posted_);
  if (!posted_.empty()) WakeThread();
}

void Engine::Post(Effects fx) {
  if (fx.empty()) return;
  {
    MutexLock lock(&mu_);
    if (!thread_ended_) {
      posted_.Append(std::move(fx));
      return WakeThread();
    }
  }
  fx.RunWithoutThread(options_);
}

void Engine::Tell(Effects& fx, bool shares_thread) {
  if (shares_thread) Post(fx.TakeFrom(By::kGiver));
  const bool outermost = !LibraryThread::RunsFor(this);
  {
    const LibraryThread here(this);
    fx.Run(options_);
  }
  if (outermost) Flush();
}

void Engine::Flush(bool will_wait) {
  std::array<StreamPtr, kLinks> ready;
  bool held_up = false;
  {
    MutexLock lock(&mu_);
    for (int link = 0; link < kLinks; ++link) {
      const StreamPtr& stream = StreamOf(link);
      if (stream == nullptr || stream->read_ended) continue;
      if (stream->writing) {
        held_up = held_up || table_.at(link).HasNext();
      } else if (table_.Pack(BootNow(), link, stream->message.Renew())) {
        stream->writing = true;
        ready[static_cast<size_t>(link)] = stream;
      }
    }
  }
  for (const StreamPtr& stream : ready) {
    if (stream != nullptr) stream->Write();
  }
  if (held_up && !will_wait && waiting_ != nullptr) waiting_->Attend();
}

void Engine::Run() {
  for (bool last = false; !last;) {
    timer_.Wait();
    Effects fx;
    {
      MutexLock lock(&mu_);
      fx = std::exchange(posted_, {});
      last = thread_ended_ = table_.closed();
      if (!last) Tick(fx);
    }
    Tell(fx);
  }
}

void Engine::Tick(Effects& fx) {
  const int64_t now_ns = BootNow();
  armed_ns_ = kNever;
  for (int link = 0; link < kLinks; ++link) {
    const StreamPtr stream = StreamOf(link);
    if (stream == nullptr || !table_.at(link).IsLapsed(now_ns)) continue;
    const char* const why = table_.at(link).opened ? "the broker was not heard for the whole validity"
                                                   : "no answer to Open within the connect timeout";
    Break(link, EndCause::kLapsed, Refusal{.reason = RefusalReason::kUnreachable, .message = why}, now_ns, fx);
    fx.Add(By::kAnybody, [stream] { stream->Cancel(); });
  }
  table_.Tick(now_ns, fx);
  for (int link = 0; link < kLinks; ++link) {
    if (table_.at(link).LooksForProof()) fx.Add(By::kAnybody, [this, link] { ShowProof(link); });
  }
  if (WantsStream() && now_ns >= reconnect_at_ns_) fx.Add(By::kAnybody, [this] { StartStream(); });
  Arm();
}

void Engine::ShowProof(int link) {
  StreamPtr stream;
  std::string address;
  {
    MutexLock lock(&mu_);
    stream = StreamOf(link);
    if (stream == nullptr) return;
    address = addresses_.at(stream->broker);
  }
  const auto proof = wire::BearerFor(address, options_.token_file);  // reads it
  MutexLock lock(&mu_);
  if (StreamOf(link) == stream) table_.Show(proof, link);
}

void Engine::StartStream() {
  Effects fx;
  size_t broker = 0;
  std::string address;
  {
    MutexLock lock(&mu_);
    const StreamPtr& left = StreamOf(1 - table_.present());
    if (left != nullptr && left->broker == addresses_.present() && addresses_.size() > 1) {
      addresses_.Next();  // the table has left that broker
      Log(fx, LogLevel::kInfo, "leaves ", addresses_.at(left->broker), " for ", addresses_.at(addresses_.present()));
    }
    broker = addresses_.present();
    address = addresses_.at(broker);
  }
  const auto proof = wire::BearerFor(address, options_.token_file);  // reads it
  const bool on_this_machine = absl::StartsWith(address, "unix:");
  const auto claim = on_this_machine && options_.ends_with_process ? ClaimThisProcess() : std::nullopt;
  StreamPtr stream;
  {
    MutexLock lock(&mu_);
    if (!WantsStream()) return;
    const int64_t now_ns = BootNow();
    const int link = table_.present();
    stream = StreamOf(link) = transport_->NewStream(shared_from_this(), link, broker);
    ++open_streams_;
    table_.OnStarted(now_ns, claim, proof, fx);
    stream->writing = table_.Pack(now_ns, link, *stream->message);
    Arm();
  }
  stream->Start(proof);
  Tell(fx);
}

void Engine::OnResponse(Stream& stream, const v1::SessionResponse& response) {
  Effects& fx = stream.fx;
  {
    MutexLock lock(&mu_);
    if (StreamOf(stream.link).get() != &stream) return;
    const Link& link = table_.at(stream.link);
    const bool was_open = link.opened;
    const int64_t now_ns = BootNow();
    for (const v1::SessionEvent& event : response.events()) table_.OnEvent(event, now_ns, fx, stream.link);
    if (stream.link == table_.present() && link.session.heard()) {
      reconnects_.Reset();
      addresses_.Succeed();
    }
    if (!was_open && link.opened) {
      const std::string& address = addresses_.at(stream.broker);
      fx.Add(By::kAnybody, [this, address] { lookups_.Follow(address); });
      Log(fx, LogLevel::kInfo, "connected to ", address);
    }
    Arm();
  }
  Tell(fx, stream.SharesThread());
}

void Engine::OnWritten(Stream& stream, bool ok) {
  bool finish = false;
  {
    MutexLock lock(&mu_);
    stream.writing = false;
    finish = stream.read_ended;
  }
  if (finish) {
    stream.Finish();
  } else if (ok) {
    Flush();
  }
}

void Engine::OnReadEnd(Stream& stream) {
  bool finish = false;
  {
    MutexLock lock(&mu_);
    stream.read_ended = true;
    finish = !stream.writing;
  }
  // Else OnWritten does, soon: a write of a call that has ended fails. A Cancel would replace the call's status.
  if (finish) stream.Finish();
}

void Engine::OnStreamEnd(Stream& stream, const grpc::Status& status) {
  Effects& fx = stream.fx;
  {
    MutexLock lock(&mu_);
    --open_streams_;
    if (StreamOf(stream.link).get() == &stream) {
      std::optional<Refusal> failure;
      if (!status.ok()) {
        failure = ToRefusal(status);
        failure->message = ConnectFailure(addresses_.at(stream.broker), failure->message);
      }
      const bool given_up = failure && failure->reason == RefusalReason::kLeaseLost;
      Break(stream.link, given_up ? EndCause::kLapsed : EndCause::kDisconnected, failure, BootNow(), fx);
    }
    Arm();
  }
  Tell(fx, stream.SharesThread());
}

void Engine::Break(int link, EndCause cause, const std::optional<Refusal>& failure, int64_t now_ns, Effects& fx) {
  const bool present = link == table_.present();
  const size_t broker = std::exchange(StreamOf(link), nullptr)->broker;
  const std::string why = absl::StrCat("the stream to the broker ended", failure ? ": " : "",
                                       failure ? failure->message : "", " (", addresses_.at(broker), ")");
  Log(fx, LogLevel::kWarning, why);
  table_.OnBroken(cause, why, failure, now_ns, fx, link);
  // In the second case the table has left that broker and not gone to another one yet.
  if (!present && (!WantsStream() || broker != addresses_.present())) return;
  const int64_t pause_ns = table_.moving() ? std::min(PauseAfter(failure), kPauseWhileMoving) : PauseAfter(failure);
  reconnect_at_ns_ = AddNs(now_ns, pause_ns);
  Log(fx, LogLevel::kDebug, "next attempt at ", addresses_.at(addresses_.present()), " in ", pause_ns / 1'000'000,
      " ms");
}

int64_t Engine::PauseAfter(const std::optional<Refusal>& failure) {
  const bool another_may_do =
      !failure || failure->reason == RefusalReason::kUnreachable || failure->reason == RefusalReason::kDraining;
  if (addresses_.Next() && another_may_do) return 0;
  return reconnects_.Next(failure ? failure->retry_after : std::nullopt).count();
}

void Engine::Arm() {
  wanted_ = wanted_ || !table_.empty();
  int64_t at_ns = table_.wake_ns();
  if (WantsStream()) at_ns = std::min(at_ns, reconnect_at_ns_);
  if (table_.closed() || at_ns >= armed_ns_) return;
  armed_ns_ = at_ns;
  timer_.Set(at_ns);
}

void Engine::WakeThread() {
  armed_ns_ = 0;
  timer_.Set(0);
}

}  // namespace distlock::internal
