// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "callbacks.h"
#include "distlock/wire/bearer.h"
#include "tls_channel.h"

namespace distlock::internal {
namespace {

// Short, because leases wait for a session that adopts them, and their last promises run out.
constexpr int64_t kPauseWhileMoving = 200'000'000;

bool IsCallback(Effects::By by) { return by == Effects::By::kLibrary || by == Effects::By::kExecutor; }

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

Engine::Engine(const ClientOptions& options, const MakeTransport& make_transport)
    : options_(options),
      addresses_(options.address),
      lookups_(options, options.connect_at_once ? addresses_.all() : SplitAddresses(options.address)),
      transport_(make_transport(options, addresses_.all())),
      waiting_(transport_->waiting()),
      table_(OptionsFrom(options)),
      wanted_(options.connect_at_once),
      reconnects_(options.reconnect_initial, options.reconnect_max) {}

void Engine::Start(const std::shared_ptr<Core>& core) {
  thread_ = std::thread([this, core] { Run(core); });
  MutexLock lock(&mu_);
  WakeThread();
}

void Engine::Close() {
  {
    MutexLock lock(&mu_);
    if (std::exchange(closing_, true)) return;
    table_.Close(BootNow(), posted_);
    timer_.Set(0);
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
    if (table_.opened()) AwaitFor(mu_, ended, options_.close_timeout);
    streams = streams_;
  }
  for (const StreamPtr& stream : streams) {
    if (stream != nullptr) stream->Cancel();
  }
  {
    MutexLock lock(&mu_);
    // A stream that has not ended keeps the Core, with all that it needs, until then.
    if (!AwaitFor(mu_, ended, options_.close_timeout)) return;
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
  Post(fx.Extract(IsCallback));
  internal::Run(fx, options_);
}

void Engine::TurnQuietly(Act act) {
  MutexLock lock(&mu_);
  act(table_, BootNow(), posted_);
  if (!posted_.empty()) WakeThread();
}

bool Engine::closing() {
  MutexLock lock(&mu_);
  return closing_;
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
  RunWithoutThread(std::move(fx), options_);
}

void Engine::Tell(Effects fx, bool shares_thread) {
  if (shares_thread) Post(fx.Extract([](Effects::By by) { return by != Effects::By::kAnybody; }));
  const bool outermost = !LibraryThread::RunsFor(this);
  {
    const LibraryThread here(this);
    internal::Run(fx, options_);
  }
  if (outermost) Flush();
}

void Engine::Flush(bool will_wait) {
  std::array<std::pair<StreamPtr, std::unique_ptr<v1::SessionRequest>>, kLinks> ready;
  bool held_up = false;
  {
    MutexLock lock(&mu_);
    for (int link = 0; link < kLinks; ++link) {
      const StreamPtr& stream = StreamOf(link);
      if (stream == nullptr || stream->read_ended) continue;
      if (stream->writing) {
        held_up = held_up || table_.at(link).HasNext();
        continue;
      }
      auto message = table_.Pack(BootNow(), link);
      if (message == nullptr) continue;
      stream->writing = true;
      ready[static_cast<size_t>(link)] = {stream, std::move(message)};
    }
  }
  for (auto& [stream, message] : ready) {
    if (stream != nullptr) stream->Write(std::move(message));
  }
  if (held_up && !will_wait && waiting_ != nullptr) waiting_->Attend();
}

void Engine::Run(const std::shared_ptr<Core>& core) {
  bool last = false;
  while (!last) {
    timer_.Wait();
    Effects fx;
    std::array<StreamPtr, kLinks> lapsed;
    std::vector<int> looks;
    bool starts = false;
    {
      MutexLock lock(&mu_);
      fx = std::exchange(posted_, {});
      last = thread_ended_ = closing_;
      if (!last) {
        const int64_t now_ns = BootNow();
        armed_ns_ = kNever;
        for (int link = 0; link < kLinks; ++link) lapsed[static_cast<size_t>(link)] = BreakIfLapsed(link, now_ns, fx);
        table_.Tick(now_ns, fx);
        for (int link = 0; link < kLinks; ++link) {
          if (table_.at(link).LooksForProof()) looks.push_back(link);
        }
        starts = WantsStream() && now_ns >= reconnect_at_ns_;
        Arm();
      }
    }
    for (const StreamPtr& stream : lapsed) {
      if (stream != nullptr) stream->Cancel();
    }
    for (const int link : looks) ShowProof(link);
    Tell(std::move(fx));
    if (starts) StartStream(core);
  }
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
  const auto proof = wire::BearerFor(address);  // reads a file
  MutexLock lock(&mu_);
  if (StreamOf(link) == stream) table_.Show(proof, link);
}

void Engine::StartStream(const std::shared_ptr<Core>& core) {
  Effects fx;
  size_t broker = 0;
  std::string address;
  {
    MutexLock lock(&mu_);
    if (const StreamPtr& left = StreamOf(1 - table_.present());
        left != nullptr && left->broker == addresses_.present() && addresses_.size() > 1) {
      addresses_.Next();  // the table has left that broker
      Log(fx, LogLevel::kInfo, "leaves ", addresses_.at(left->broker), " for ", addresses_.at(addresses_.present()));
    }
    broker = addresses_.present();
    address = addresses_.at(broker);
  }
  const auto proof = wire::BearerFor(address);  // reads a file
  const bool on_this_machine = absl::StartsWith(address, "unix:");
  const auto claim = on_this_machine && options_.ends_with_process ? ClaimThisProcess() : std::nullopt;
  StreamPtr stream;
  std::unique_ptr<v1::SessionRequest> first;
  {
    MutexLock lock(&mu_);
    if (!WantsStream()) return;
    const int64_t now_ns = BootNow();
    StreamPtr& present = StreamOf(table_.present());
    stream = present = transport_->NewStream(core, table_.present(), broker);
    ++open_streams_;
    table_.OnStarted(now_ns, claim, proof, fx);
    first = table_.Pack(now_ns, stream->link);
    Arm();
  }
  stream->Start(proof, std::move(first));
  Tell(std::move(fx));
}

void Engine::OnResponse(Stream& stream, const v1::SessionResponse& response) {
  Effects fx;
  std::optional<std::string> opened_at;
  {
    MutexLock lock(&mu_);
    if (StreamOf(stream.link).get() != &stream) return;
    const int64_t now_ns = BootNow();
    const Link& link = table_.at(stream.link);
    const bool was_open = link.opened;
    for (const v1::SessionEvent& event : response.events()) table_.OnEvent(event, now_ns, fx, stream.link);
    if (stream.link == table_.present() && link.session.heard()) {
      reconnects_.Reset();
      addresses_.Succeed();
    }
    if (!was_open && link.opened) {
      opened_at = addresses_.at(stream.broker);
      Log(fx, LogLevel::kInfo, "connected to ", *opened_at);
    }
    Arm();
  }
  if (opened_at) lookups_.Follow(*opened_at);
  Tell(std::move(fx), stream.SharesThread());
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
  bool writing = false;
  {
    MutexLock lock(&mu_);
    stream.read_ended = true;
    writing = stream.writing;
  }
  // A write into a dead stream may take minutes to fail.
  if (writing) return stream.Cancel();
  stream.Finish();
}

void Engine::OnStreamEnd(Stream& stream, const grpc::Status& status) {
  Effects fx;
  const bool shares_thread = stream.SharesThread();
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
  Tell(std::move(fx), shares_thread);
}

Engine::StreamPtr Engine::BreakIfLapsed(int link, int64_t now_ns, Effects& fx) {
  StreamPtr stream = StreamOf(link);
  if (stream == nullptr || !table_.at(link).IsLapsed(now_ns)) return nullptr;
  const char* const why = table_.at(link).opened ? "the broker was not heard for the whole validity"
                                                 : "no answer to Open within the connect timeout";
  Break(link, EndCause::kLapsed, Refusal{.reason = RefusalReason::kUnreachable, .message = why}, now_ns, fx);
  return stream;
}

void Engine::Break(int link, EndCause cause, const std::optional<Refusal>& failure, int64_t now_ns, Effects& fx) {
  const bool present = link == table_.present();
  const size_t broker = std::exchange(StreamOf(link), nullptr)->broker;
  const std::string why = absl::StrCat("the stream to the broker ended", failure ? ": " : "",
                                       failure ? failure->message : "", " (", addresses_.at(broker), ")");
  Log(fx, LogLevel::kWarning, why);
  table_.OnBroken(cause, why, failure, now_ns, fx, link);
  // Else the table has left that broker.
  if (present || (WantsStream() && broker == addresses_.present())) {
    int64_t pause_ns = PauseAfter(failure).count();
    if (table_.moving()) pause_ns = std::min(pause_ns, kPauseWhileMoving);
    reconnect_at_ns_ = AddNs(now_ns, pause_ns);
    Log(fx, LogLevel::kDebug, "next attempt at ", addresses_.at(addresses_.present()), " in ", pause_ns / 1'000'000,
        " ms");
  }
}

Duration Engine::PauseAfter(const std::optional<Refusal>& failure) {
  const bool another_may_do =
      !failure || failure->reason == RefusalReason::kUnreachable || failure->reason == RefusalReason::kDraining;
  if (addresses_.Next() && another_may_do) return Duration::zero();
  return reconnects_.Next(failure ? failure->retry_after : std::nullopt);
}

void Engine::Arm() {
  wanted_ = wanted_ || !table_.empty();
  int64_t at_ns = table_.wake_ns();
  if (WantsStream()) at_ns = std::min(at_ns, reconnect_at_ns_);
  if (closing_ || at_ns >= armed_ns_) return;
  armed_ns_ = at_ns;
  timer_.Set(at_ns);
}

void Engine::WakeThread() {
  armed_ns_ = 0;
  timer_.Set(0);
}

}  // namespace distlock::internal
