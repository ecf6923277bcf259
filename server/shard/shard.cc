// SPDX-License-Identifier: Apache-2.0
#include "shard/shard.h"

#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "shard/lent_turns.h"

namespace distlock::shard {
namespace {

// After this many inputs a turn ends, so that store replies and deadlines are served under load.
constexpr size_t kMailPerTurn = 1024;
// The lending thread must return to its own calls soon.
constexpr size_t kMailPerLentTurn = 64;
// How often the load is looked at: a walk takes some 50 ns for each lease and queue, so a 2000th of the time.
constexpr core::Duration kLoadEvery = std::chrono::seconds(1);
constexpr core::Duration kLoadEveryForEach = std::chrono::microseconds(100);

// Only the main thread handles signals.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

Shard::Shard(int index, const ShardSetOptions& options, std::function<void()> on_drained)
    : index_(index),
      make_store_(options.make_store),
      observer_(options.observer),
      load_namespaces_(options.load_namespaces),
      on_drained_(std::move(on_drained)),
      loop_([this] { Turn(); }, [this] { Send(sending_); }),
      mailbox_(options.mailbox_capacity, [this] { CallForTurn(); }),
      broker_(options.broker),
      listeners_(index) {
  status_.store_problem = store_problem_;
}

Shard::~Shard() { Stop(); }

void Shard::Start() {
  assert(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void Shard::Stop() {
  stopping_ = true;
  if (thread_.joinable()) {
    mailbox_.WakeIfOpen([this] { loop_.Wake(); });
    thread_.join();
  } else {
    ShutDown();
  }
}

void Shard::Post(Envelope envelope) {
  std::optional<Envelope> refused = mailbox_.Post(std::move(envelope));
  if (!refused) return;
  if (auto* query = std::get_if<StoreQuery>(&refused->what)) (*query)(nullptr);
}

ShardStatus Shard::Status() const {
  std::unique_lock lock(status_mu_);
  ShardStatus status = status_;
  lock.unlock();
  status.mailbox_depth = mailbox_.waiting();
  return status;
}

void Shard::Run() {
  BlockSignals();
  pthread_setname_np(pthread_self(), ("shard-" + std::to_string(index_)).c_str());
  store_ = make_store_(index_, loop_.uv());
  store_->Start(this);
  loop_.RequestTurn();
  loop_.Run();
  store_.reset();
  loop_.Run();  // until the handles that the store's destructor closed are gone
}

void Shard::CallForTurn() {
  LentTurns* const lender = LentTurns::OfThisThread();
  if (lender != nullptr) {
    lender->Promise(*this);
  } else {
    loop_.Wake();
  }
}

void Shard::OnStoreInput(core::Input&& input) {
  assert(loop_.Held());
  store_inputs_.push_back(std::move(input));
  loop_.RequestTurn();  // libuv may wait before it calls Turn again
}

void Shard::Turn() {
  assert(loop_.Held());
  if (stopping_) {
    ShutDown();
    return;
  }
  lag_ = core::Duration(-1);
  HandleStoreInputs();
  HandleMail();
  if (const auto now = BootNow(), due = broker_.NextDeadline(); due <= now) {
    lag_ = std::max(lag_, now - due);
    Step(core::Tick{});
  }
  EndTurn();
  sending_ = listeners_.TakeTold();
}

void Shard::Send(std::vector<std::shared_ptr<Sink>>& told) {
  for (const auto& sink : told) sink->Send();
  told.clear();
}

void Shard::LentTurn() {
  std::vector<std::shared_ptr<Sink>> told;
  const bool taken = loop_.TryUse([&] {
    if (stopping_) return loop_.RequestTurn();
    lag_ = core::Duration(-1);
    TakeMail();
    // A Step handles every due timer first, which may take long: then a lent turn handles no mail.
    size_t most = broker_.NextDeadline() <= BootNow() ? 0 : kMailPerLentTurn;
    for (; most > 0 && first_done_ < first_.size(); --most) Handle(first_[first_done_++]);
    const bool is_next = first_done_ == first_.size() && backlog_.empty();
    const auto takes_next = [&] { return mail_done_ < mail_.size() && IsBrief(mail_[mail_done_]) && !StoreIsBusy(); };
    for (; is_next && most > 0 && takes_next(); --most) {
      Handle(mail_[mail_done_++]);
      ++handled_;
    }
    EndTurn();
    told = listeners_.TakeTold();
  });
  if (!taken) mailbox_.WakeIfOpen([this] { loop_.Wake(); });
  Send(told);
}

void Shard::EndTurn() {
  store_->Flush();
  listeners_.Deliver();
  if (handled_ > 0) mailbox_.Handled(std::exchange(handled_, 0));
  PublishStatus();
  if (observer_ != nullptr && lag_ >= core::Duration::zero()) observer_->OnLoopLag(lag_);
  const bool is_done = first_done_ == first_.size() && mail_done_ == mail_.size() && backlog_.empty();
  // A busy store's next answer calls for a turn.
  if (!is_done && (first_done_ < first_.size() || !StoreIsBusy())) loop_.RequestTurn();
  loop_.WakeAt(broker_.NextDeadline());
}

void Shard::HandleStoreInputs() {
  store_batch_.swap(store_inputs_);
  for (core::Input& input : store_batch_) Step(std::move(input));
  store_batch_.clear();
}

void Shard::TakeMail() {
  if (first_done_ == first_.size()) {
    first_.clear();
    first_done_ = 0;
  }
  if (mail_done_ == mail_.size()) {
    mail_.clear();
    mail_done_ = 0;
  }
  const auto first_at = mailbox_.Drain(first_, mail_);
  if (first_at != core::kNever) lag_ = std::max(lag_, BootNow() - first_at);
}

void Shard::HandleMail() {
  TakeMail();
  // All of them: what follows may end a session, whose heartbeats must be handled before.
  while (first_done_ < first_.size()) Handle(first_[first_done_++]);
  if (!backlog_.empty() || mail_.size() - mail_done_ > kMailPerTurn) return HandleInTurn();
  for (; mail_done_ < mail_.size() && !StoreIsBusy(); ++handled_) Handle(mail_[mail_done_++]);
}

void Shard::HandleInTurn() {
  for (; mail_done_ < mail_.size(); ++mail_done_) {
    Envelope& envelope = mail_[mail_done_];
    backlog_.Add(envelope.session, std::move(envelope));
  }
  for (size_t most = kMailPerTurn; most > 0 && !backlog_.empty() && !StoreIsBusy(); --most, ++handled_) {
    Envelope envelope = backlog_.Take();
    Handle(envelope);
  }
}

bool Shard::StoreIsBusy() const { return pace_.IsBusy(sent_.size()); }

bool Shard::IsBrief(const Envelope& envelope) const {
  const auto* input = std::get_if<core::Input>(&envelope.what);
  if (input == nullptr || std::holds_alternative<core::Drain>(*input)) return false;
  if (std::holds_alternative<core::HolderDied>(*input)) return false;
  if (const auto* goodbye = std::get_if<core::Goodbye>(input)) return !listeners_.MayHoldMany(goodbye->session);
  if (const auto* ended = std::get_if<core::StreamEnded>(input)) return !listeners_.MayHoldMany(ended->session);
  return true;
}

void Shard::Handle(Envelope& envelope) {
  if (envelope.share != nullptr && envelope.share->Handled()) listeners_.Wake(envelope.session);
  if (envelope.sink != nullptr) listeners_.Attach(envelope.session, std::move(envelope.sink));
  if (auto* query = std::get_if<StoreQuery>(&envelope.what)) {
    // The envelope stays in mail_ until more mail comes, but the objects that the question has captured must not.
    std::exchange(*query, nullptr)(store_.get());
    return;
  }
  auto& input = std::get<core::Input>(envelope.what);
  const auto* ended = std::get_if<core::StreamEnded>(&input);
  const core::SessionId gone = ended != nullptr ? ended->session : 0;
  Step(std::move(input));
  if (gone != 0) listeners_.Detach(gone);
}

void Shard::Step(core::Input&& input) {
  const auto now = BootNow();
  if (const auto* reply = std::get_if<core::StoreReply>(&input)) NoteStoreReply(now, *reply);
  if (std::holds_alternative<core::StoreUp>(input)) NoteStoreState(true, "");
  if (const auto* down = std::get_if<core::StoreDown>(&input)) NoteStoreState(false, down->cause);
  effects_.clear();
  broker_.Step(now, std::move(input), effects_);
  for (core::Effect& effect : effects_) Perform(now, effect);
}

void Shard::Perform(core::Instant now, core::Effect& effect) {
  if (auto* command = std::get_if<core::StoreCommand>(&effect)) {
    Submit(now, std::move(*command));
  } else if (auto* notify = std::get_if<core::Notify>(&effect)) {
    listeners_.Gather(std::move(*notify));
  } else if (const auto* fact = std::get_if<core::Fact>(&effect)) {
    if (observer_ != nullptr) observer_->OnFact(*fact);
  } else {
    static_assert(std::variant_size_v<core::Effect> == 4, "a new effect needs its place here");
    on_drained_();
  }
}

void Shard::Submit(core::Instant now, core::StoreCommand&& command) {
  const core::OpId op = std::visit([](const auto& one) { return one.op; }, command);
  sent_[op] = Sent{.verb = core::VerbOf(command), .at = now};
  store_->Submit(std::move(command));
}

void Shard::NoteStoreState(bool up, const std::string& cause) {
  store_up_ = up;
  store_problem_ = cause;
  if (observer_ != nullptr) observer_->OnStoreState(index_, up, cause);
}

void Shard::NoteStoreReply(core::Instant now, const core::StoreReply& reply) {
  const auto it = sent_.find(reply.op);
  assert(it != sent_.end());
  if (it == sent_.end()) return;
  const Sent sent = it->second;
  sent_.erase(it);
  pace_.Answered(now, now - sent.at);
  if (observer_ == nullptr) return;
  const auto* failed = std::get_if<core::StoreFailed>(&reply.outcome);
  const bool ok = failed == nullptr && !std::holds_alternative<core::StoreUnknown>(reply.outcome);
  observer_->OnStoreReply(sent.verb, now - sent.at, ok);
  if (!ok) observer_->OnStoreFailure(sent.verb, failed ? std::optional(failed->kind) : std::nullopt);
}

std::optional<core::BrokerLoad> Shard::NewLoad(const core::BrokerStats& stats) {
  const core::Instant now = BootNow();
  const auto records = static_cast<int64_t>(stats.leases + stats.queues);
  if (now - load_at_ < std::max(kLoadEvery, kLoadEveryForEach * records)) return std::nullopt;
  load_at_ = now;
  return broker_.Load(load_namespaces_);
}

void Shard::PublishStatus() {
  const auto stats = broker_.Stats();
  auto load = NewLoad(stats);
  std::lock_guard lock(status_mu_);
  status_.store_up = store_up_;
  if (status_.store_problem != store_problem_) status_.store_problem = store_problem_;
  status_.stats = stats;
  if (load) status_.load = *std::move(load);
}

void Shard::ShutDown() {
  mailbox_.Close(first_, mail_);  // before the loop, so that no poster wakes a closed loop
  if (store_ != nullptr) {
    store_->Stop();
    loop_.Close();
  }
  const auto cancel = [](Envelope& envelope) {
    if (auto* query = std::get_if<StoreQuery>(&envelope.what)) (*query)(nullptr);
  };
  std::for_each(mail_.begin() + static_cast<ptrdiff_t>(mail_done_), mail_.end(), cancel);
  while (!backlog_.empty()) {
    Envelope envelope = backlog_.Take();
    cancel(envelope);
  }
  first_.clear();
  mail_.clear();
  first_done_ = mail_done_ = 0;
}

}  // namespace distlock::shard
