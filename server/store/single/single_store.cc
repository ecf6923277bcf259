// SPDX-License-Identifier: Apache-2.0
#include "store/single/single_store.h"

#include <utility>
#include <variant>

#include "store/redis/lock_listing.h"
#include "store/text.h"

namespace distlock::store {
namespace {

LinkOptions MakeLinkOptions(const StoreOptions& options, uint64_t salt) {
  return {.url = options.url,
          .credentials = options.credentials,
          .connect_timeout = options.connect_timeout,
          .subscriber = false,
          .seed = options.seed * 2 + salt};
}

}  // namespace

SingleStore::SingleStore(uv_loop_t* loop, StoreOptions options)
    : options_(std::move(options)),
      codec_(options_.locks),
      loop_(loop),
      link_(loop, MakeLinkOptions(options_, 0), this),
      scripts_(&link_),
      batch_(&codec_, &scripts_,
             [this](const Question& question, const Answer& answer) { OnAnswer(question, answer); }),
      channel_(loop, MakeLinkOptions(options_, 1), codec_.grant_channel(), this),
      questions_(loop) {}

SingleStore::~SingleStore() { Stop(); }

void SingleStore::Start(StoreListener* listener) {
  listener_ = listener;
  // First the channel, so that no grant can be handed to this broker before it listens.
  channel_.Start();
}

void SingleStore::Stop() {
  listener_ = nullptr;
  up_ = false;
  channel_.Stop();
  link_.Stop();
  questions_.RefuseAll(absl::CancelledError("the broker is stopping"));
}

void SingleStore::Tell(core::Input&& input) {
  if (listener_ != nullptr) listener_->OnStoreInput(std::move(input));
}

void SingleStore::OnChannelUp() {
  last_channel_problem_.clear();
  if (!channel_seen_) {
    channel_seen_ = true;
    return link_.Start();
  }
  if (first_up_done_) Tell(core::ChannelUp{});
}

void SingleStore::OnLinkConnected() {
  Prepare(link_, codec_.grant_channel(), [this](const absl::StatusOr<Prepared>& prepared) { OnPrepared(prepared); });
}

void SingleStore::OnPrepared(const absl::StatusOr<Prepared>& prepared) {
  if (!prepared.ok()) return link_.Reconnect(prepared.status());
  link_.MarkReady();
  up_ = true;
  told_cause_.clear();
  last_problem_.clear();
  if (options_.on_warning) {
    for (const auto& warning : prepared->warnings) options_.on_warning(warning);
  }
  const bool first = !std::exchange(first_up_done_, true);
  Tell(core::StoreUp{prepared->time});
  if (first) Tell(core::ChannelUp{});
}

void SingleStore::OnLinkDown(const absl::Status& why) {
  up_ = false;
  down_cause_ = std::string(why.message());
  ReportProblem(last_problem_, "", why);
  if (std::exchange(told_cause_, down_cause_) != down_cause_) Tell(core::StoreDown{down_cause_});
}

void SingleStore::OnChannelDown(const absl::Status& why) {
  ReportProblem(last_channel_problem_, "hand-off channel: ", why);
  // Until the first subscription there is no command connection, and the channel's trouble is the store's.
  if (channel_seen_) return;
  down_cause_ = std::string(why.message());
  if (std::exchange(told_cause_, down_cause_) != down_cause_) Tell(core::StoreDown{down_cause_});
}

// A store that is there and refuses everything: without this, only the callers would know why.
void SingleStore::ReportRefusal(const core::StoreFailed& failed) {
  constexpr uint64_t kAgainMs = 60'000;
  if (failed.kind != core::FailureKind::kUnavailable && failed.kind != core::FailureKind::kFull &&
      failed.kind != core::FailureKind::kProtocol) {
    return;
  }
  // By time alone: the text names the script, so that each verb's differs.
  const uint64_t now_ms = uv_now(loop_);
  if (refusal_at_ms_ && now_ms - *refusal_at_ms_ < kAgainMs) return;
  refusal_at_ms_ = now_ms;
  if (options_.on_problem)
    options_.on_problem(absl::UnavailableError(Cat(options_.url.Masked(), ": refuses: ", failed.cause)));
}

void SingleStore::ReportProblem(std::string& last, std::string_view who, const absl::Status& why) {
  std::string text = Cat(options_.url.Masked(), ": ", who, why.message());
  if (std::exchange(last, text) == text) return;
  if (options_.on_problem) options_.on_problem(absl::Status(why.code(), text));
}

void SingleStore::OnChannelMessage(std::string_view payload) {
  if (auto notice = Codec::DecodeNotice(payload)) Tell(*std::move(notice));
}

void SingleStore::Submit(core::StoreCommand&& command) {
  if (const auto* reconnect = std::get_if<core::StoreReconnect>(&command)) {
    batch_.Send();  // what was submitted before it ends with this connection
    up_ = false;
    down_cause_ = reconnect->cause;
    return link_.Reconnect(absl::UnavailableError(reconnect->cause));
  }
  if (up_) return batch_.Add(std::move(command));
  link_.Reject([this, question = codec_.Encode(command).question](const Answer& answer) { OnAnswer(question, answer); },
               down_cause_);
}

void SingleStore::Flush() {
  batch_.Send();
  link_.Flush();
}

void SingleStore::OnAnswer(const Question& question, const Answer& answer) {
  Understood understood = Understand(codec_, question, answer);
  if (!understood.reconnect.empty()) {
    up_ = false;
    down_cause_ = understood.reconnect;
    link_.Reconnect(absl::UnavailableError(down_cause_));
  }
  if (const auto* failed = std::get_if<core::StoreFailed>(&understood.reply.outcome)) ReportRefusal(*failed);
  Tell(std::move(understood.reply));
}

void SingleStore::RefuseSoon(PendingQueries::Id id, absl::Status why) {
  link_.Reject([this, id, why = std::move(why)](const Answer&) { questions_.Refuse(id, why); }, "");
}

void SingleStore::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                          std::function<void(absl::StatusOr<LockView>)> done) {
  const auto id = questions_.Open(timeout, done);
  if (!up_) return RefuseSoon(id, absl::UnavailableError(down_cause_));
  scripts_.Call(lua::kInspect, codec_.EncodeInspect(name, max_waiters),
                [this, id, name, done = std::move(done)](const Answer& answer) {
                  if (!questions_.Take(id)) return;
                  if (answer.kind != Answer::Kind::kReply) return done(absl::UnavailableError(answer.cause));
                  done(Codec::DecodeInspect(name, *answer.reply));
                });
  link_.Flush();
}

void SingleStore::List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size,
                       std::string page_token, core::Duration timeout,
                       std::function<void(absl::StatusOr<LockPage>)> done) {
  const auto id = questions_.Open(timeout, done);
  auto from = PageToken::Decode(page_token);
  if (!from.ok()) return RefuseSoon(id, from.status());
  if (!up_) return RefuseSoon(id, absl::UnavailableError(down_cause_));
  const LockListing::Means means{codec_, link_, scripts_, questions_};
  std::make_shared<LockListing>(means, id, codec_.keys().HolderPattern(escaped_namespace, escaped_key_prefix),
                                page_size, *std::move(from), std::move(done))
      ->Step();
}

}  // namespace distlock::store
