// SPDX-License-Identifier: Apache-2.0
#include "store/redis/schema_mark.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/keys.h"
#include "store/redis/reply_code.h"
#include "store/redis/reply_parts.h"
#include "store/redis/resp.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr core::Duration kReadEvery = std::chrono::minutes(1);  // kAnnouncementLasts of last_seen.h is longer
constexpr core::Duration kReadAgain = std::chrono::seconds(1);  // after no answer
constexpr core::Duration kMarkLives = std::chrono::hours(30 * 24);
// A broker that has announced itself within this time may still run.
constexpr core::Duration kRecent = std::chrono::hours(1);
// How long keys outlive the last token of their lock at most: leases and queues.
constexpr core::Duration kLongestLease = std::chrono::hours(25);

core::Duration OldData(const LockOptions& locks) {
  core::Duration keep = locks.token_keep;
  for (const auto& [name, of_namespace] : locks.token_keep_of) keep = std::max(keep, of_namespace);
  return keep + kLongestLease;
}

uint64_t ReadId(std::string_view text) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  return error == std::errc() && end == text.data() + text.size() ? id : 0;
}

std::optional<uint32_t> Schema(const ReplyArray& reply, size_t i) {
  const auto number = Number(reply, i);
  if (!number || *number > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

// "schema 1", "the schemas 1 to 2"
std::string SchemasText(uint32_t oldest, uint32_t newest) {
  return oldest == newest ? Cat("schema ", oldest) : Cat("the schemas ", oldest, " to ", newest);
}

std::string HoursText(core::Duration time) {
  return Cat(std::chrono::ceil<std::chrono::hours>(std::max(time, core::Duration::zero())).count(), " h");
}

absl::Status RefusedBy(std::string_view text) {
  const std::string message = Cat("the server refuses the script that reads the store's schema: ", text);
  if (ClassifyError(text) == ErrorClass::kDenied || Contains(text, "can't run this command") ||
      Contains(text, "can't access") || Contains(text, "ACL failure")) {
    return absl::PermissionDeniedError(Cat(message, "; lua/README.md lists the rights that are needed"));
  }
  return absl::UnavailableError(message);
}

}  // namespace

SchemaMark::SchemaMark(CommandSender* sender, ScriptCaller* scripts, const std::shared_ptr<Timers>& timers,
                       const StoreOptions& options, Owner* owner)
    : sender_(sender),
      scripts_(scripts),
      owner_(owner),
      options_(options.locks.schema),
      broker_id_(options.locks.broker_id),
      old_data_(OldData(options.locks)),
      known_(options.locks.schema.known ? options.locks.schema.known : std::make_shared<std::atomic<uint32_t>>(0)),
      id_(options.locks.schema.id ? options.locks.schema.id : std::make_shared<std::atomic<uint64_t>>(0)),
      key_(Keys(options.locks.key_prefix).Schema()),
      timer_(timers->Make([this] { Ask(); })) {}

void SchemaMark::Begin() {
  ++connection_;
  ready_ = false;
  Ask();
}

void SchemaMark::Stop() {
  ++connection_;
  ready_ = false;
  timer_->Stop();
}

void SchemaMark::MarkAt(std::string key) {
  if (std::exchange(key_, std::move(key)) != key_ && ready_) timer_->Start(core::Duration::zero());
}

void SchemaMark::Ask() {
  const bool upgrade = options_.task == SchemaTask::kUpgrade || options_.task == SchemaTask::kAskUpgrade;
  // Another server's known schema may be more than this release reads.
  const uint32_t want = upgrade ? options_.upgrade_to : std::min(known_->load(), options_.newest);
  CommandBuilder call;
  call.Arg("EVALSHA").Arg(lua::kSchema.sha1).Arg("1").Arg(key_).Arg(broker_id_);
  call.Arg(options_.oldest).Arg(options_.newest).Arg(want);
  const bool only_asks = options_.task == SchemaTask::kAskUpgrade || options_.task == SchemaTask::kLook;
  call.Arg(only_asks ? "1" : "0");
  call.Arg(CeilMs(kMarkLives)).Arg(CeilMs(kRecent)).Arg(CeilMs(old_data_));
  AddIds(call);
  scripts_->Call(lua::kSchema, std::move(call).Build(), [this, connection = connection_](const Answer& answer) {
    if (connection == connection_ && answer.kind == Answer::Kind::kReply) OnAnswer(answer);
  });
  sender_->Flush();
}

void SchemaMark::AddIds(CommandBuilder& call) const {
  const uint64_t known = options_.new_id == 0 ? 0 : id_->load();
  call.Arg(options_.several_have_id ? StoreIdText(known) : "").Arg(StoreIdText(known == 0 ? options_.new_id : known));
}

void SchemaMark::NoteId(uint64_t id) const {
  if (id == 0 || options_.new_id == 0) return;
  uint64_t known = id_->load();
  const auto counts = [&] { return !options_.several_have_id || known == 0 || id < known; };
  while (counts() && !id_->compare_exchange_weak(known, id)) {
  }
}

void SchemaMark::OnAnswer(const Answer& answer) {
  // The slot has left this node of a Cluster: the key follows the node's slots.
  if (IsError(*answer.reply) && IsRedirect(Text(*answer.reply))) return EndRound(kReadAgain);
  if (IsError(*answer.reply)) refusal_ = RefusalText(Text(*answer.reply));
  const absl::Status status = IsError(*answer.reply) ? RefusedBy(Text(*answer.reply)) : OnReply(*answer.reply);
  if (status.ok()) return EndRound(kReadEvery);
  // A broker that has read the mark goes on while the server cannot answer.
  if (ready_ && absl::IsUnavailable(status)) return EndRound(kReadAgain);
  Stop();
  owner_->OnSchemaRefused(status);
}

absl::Status SchemaMark::OnReply(const redisReply& raw) {
  const ReplyArray reply(raw);
  if (reply.Integer(0) == kForeign) {
    return absl::FailedPreconditionError(Cat("the store's schema cannot be read, because the key ", key_,
                                             " is not distlock's (", reply.String(3).value_or("?"),
                                             "): remove it, or set another --key-prefix"));
  }
  const auto time = Number(reply, 1), since = Number(reply, 4), blocker_at = Number(reply, 6);
  const auto writes = Schema(reply, 2), reads_from = Schema(reply, 3), blocker_reads = Schema(reply, 5);
  if (reply.Integer(0) != kSchema || reply.size() != 10 || !time || !since || !blocker_at || !writes || !reads_from ||
      !blocker_reads) {
    return absl::UnavailableError("the server's answer to the schema script has an unknown shape");
  }
  const Read read{*writes,
                  *reads_from,
                  AsStoreTime(*time),
                  AsStoreTime(*since),
                  *blocker_reads,
                  AsStoreTime(*blocker_at),
                  std::string(reply.String(7).value_or("")),
                  std::string(reply.String(8).value_or("")),
                  ReadId(reply.String(9).value_or(""))};
  refusal_ = RefusalText(read.refusal);
  absl::Status status = Judge(read);
  if (status.ok()) known_->store(read.writes);
  if (status.ok()) NoteId(read.id);
  return status;
}

absl::Status SchemaMark::Judge(const Read& read) const {
  if (read.writes > options_.newest) {
    return absl::FailedPreconditionError(
        Cat("the store is written in schema ", read.writes, ", and this distlockd reads ",
            SchemasText(options_.oldest, options_.newest), ": start a newer distlockd, or use another store"));
  }
  if (read.reads_from < options_.oldest) {
    const core::Duration left =
        old_data_ - (read.time.us > read.since.us ? std::chrono::microseconds(read.time.us - read.since.us)
                                                  : std::chrono::microseconds(0));
    return absl::FailedPreconditionError(
        Cat("the store may have data of schema ", read.reads_from, ", and this distlockd reads ",
            SchemasText(options_.oldest, options_.newest), ": start the release before it, which reads schema ",
            read.reads_from,
            read.writes < options_.oldest ? Cat(", and then: distlockctl store upgrade --to ", options_.oldest)
                                          : Cat("; such data end within ", HoursText(left))));
  }
  return JudgeUpgrade(read);
}

absl::Status SchemaMark::JudgeUpgrade(const Read& read) const {
  if (options_.task == SchemaTask::kServe || options_.task == SchemaTask::kLook) return absl::OkStatus();
  if (read.writes > options_.upgrade_to) {
    return absl::FailedPreconditionError(
        Cat("the store is written in schema ", read.writes, " already, and does not go back to ", options_.upgrade_to));
  }
  if (read.blocker_reads > 0 && read.writes < options_.upgrade_to) {
    const core::Duration ago = std::chrono::microseconds(read.time.us - read.blocker_at.us);
    return absl::FailedPreconditionError(Cat(
        "the broker ", read.blocker, " reads schemas up to ", read.blocker_reads, " and was there ",
        std::chrono::floor<std::chrono::seconds>(ago).count(), " s ago, so the store stays at schema ", read.writes,
        ": replace all brokers by a release that reads schema ", options_.upgrade_to, ", and try again ",
        std::chrono::duration_cast<std::chrono::minutes>(kRecent).count(), " min after the last old one has ended"));
  }
  if (read.writes < options_.upgrade_to && options_.task == SchemaTask::kUpgrade) {
    return absl::UnavailableError(Cat("the server does not write the schema's mark: ", read.refusal));
  }
  return absl::OkStatus();
}

void SchemaMark::EndRound(core::Duration next) {
  timer_->Start(next);
  if (!std::exchange(ready_, true)) owner_->OnSchemaRead();
}

}  // namespace distlock::store
