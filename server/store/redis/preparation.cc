// SPDX-License-Identifier: Apache-2.0
#include "store/redis/preparation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/fitness.h"
#include "store/redis/reply_code.h"
#include "store/redis/script_caller.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

struct Progress {
  std::function<void(absl::StatusOr<Prepared>)> done;
  absl::Status trouble;  // the first
  std::string info;
  std::string save_points = "?";
  AppendSettings appends;
  int64_t listeners = 0;
  std::string no_shard_channels;
  bool of_cluster = false;
};

absl::Status Refused(std::string_view step, const redisReply& reply) {
  const std::string_view text = Text(reply);
  const std::string message = Cat("the server refuses ", step, ": ", text);
  if (IsNonLocalKey(text)) return absl::UnavailableError(std::string(kRefusesAllScripts));
  if (Contains(text, "NOAUTH")) {
    return absl::UnauthenticatedError(Cat(message, "; give distlock the store's password"));
  }
  if (ClassifyError(text) == ErrorClass::kDenied) {
    return absl::PermissionDeniedError(Cat(message, "; lua/README.md lists the rights that are needed"));
  }
  return absl::UnavailableError(message);
}

// Passes good replies to `handler`; an error becomes the trouble that is reported.
template <typename Handler>
Link::Done Step(std::shared_ptr<Progress> progress, std::string_view step, Handler handler) {
  return [progress = std::move(progress), step = std::string(step), handler](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply) return;
    if (!IsError(*answer.reply)) return handler(*progress, *answer.reply);
    if (progress->trouble.ok()) progress->trouble = Refused(step, *answer.reply);
  };
}

void ReadProbe(Progress& progress, const redisReply& raw) {
  const ReplyArray reply(raw);
  const auto listeners = reply.Integer(2);
  if (reply.Integer(0) != kProbed || !listeners) {
    progress.trouble = absl::UnavailableError("the server's answer to the probe script has an unknown shape");
    return;
  }
  progress.listeners = std::max<int64_t>(*listeners, 0);
  if (*listeners >= 0) return;
  const std::string_view why = reply.String(3).value_or("?");
  if (ClassifyError(why) == ErrorClass::kDenied || Contains(why, "can't run this command") ||
      Contains(why, "ACL failure")) {
    progress.trouble = absl::PermissionDeniedError(
        Cat("the server refuses SPUBLISH: ", why, "; lua/README.md lists the rights that are needed"));
  }
  progress.no_shard_channels = std::string(why);
}

core::StoreTime StartOf(const ServerInfo& info, core::StoreTime now) {
  constexpr int64_t kSecond = 1'000'000;
  const auto uptime = ParseNumber(info.Get("uptime_in_seconds"));
  if (!uptime || *uptime >= static_cast<uint64_t>(now.us / kSecond)) return {};
  return {(now.us / kSecond - static_cast<int64_t>(*uptime)) * kSecond};
}

void Finish(Progress& progress, const Answer& answer) {
  if (answer.kind != Answer::Kind::kReply) return;
  const auto done = std::exchange(progress.done, nullptr);
  if (!progress.info.empty()) {
    const ServerInfo info(progress.info);
    Fitness fitness = JudgeFitness(info, progress.save_points, progress.of_cluster, progress.appends);
    if (!fitness.status.ok()) return done(fitness.status);
    if (!progress.trouble.ok()) return done(progress.trouble);
    if (IsError(*answer.reply)) return done(Refused("TIME", *answer.reply));
    const auto time = ReadTime(*answer.reply);
    if (!time.ok()) return done(time.status());
    return done(Prepared{*time, answer.sent, answer.received, IdentityOf(info), StartOf(info, *time),
                         progress.listeners, std::move(progress.no_shard_channels), std::move(fitness.warnings)});
  }
  if (progress.trouble.ok()) progress.trouble = absl::UnavailableError("the server's answer to INFO is empty");
  done(progress.trouble);
}

}  // namespace

absl::StatusOr<core::StoreTime> ReadTime(const redisReply& reply) {
  const ReplyArray time(reply);
  const auto seconds = ParseNumber(time.String(0).value_or(""));
  const auto micros = ParseNumber(time.String(1).value_or(""));
  if (time.size() != 2 || !seconds || !micros || *seconds > 1'000'000'000'000) {
    return absl::UnavailableError("the server's answer to TIME has an unknown shape");
  }
  return AsStoreTime(*seconds * 1'000'000 + *micros);
}

void Prepare(Link& link, const PreparationOptions& options, std::function<void(absl::StatusOr<Prepared>)> done) {
  auto progress = std::make_shared<Progress>();
  progress->done = std::move(done);
  progress->of_cluster = options.of_cluster;
  link.Send(MakeCommand({"INFO"}),
            Step(progress, "INFO", [](Progress& p, const redisReply& reply) { p.info = std::string(Text(reply)); }));
  link.Send(MakeCommand({"CONFIG", "GET", "save"}), [progress](const Answer& answer) {
    if (answer.kind != Answer::Kind::kReply || IsError(*answer.reply)) return;
    progress->save_points = std::string(ReplyArray(*answer.reply).String(1).value_or("?"));
  });
  link.Send(AskAppendSettings(), [progress](const Answer& answer) {
    if (answer.kind == Answer::Kind::kReply) progress->appends = ReadAppendSettings(*answer.reply);
  });
  for (const lua::ScriptSource* script : options.scripts) {
    link.Send(LoadCommand(*script), Step(progress, "SCRIPT LOAD", [script](Progress& p, const redisReply& reply) {
                if (Text(reply) != script->sha1 && p.trouble.ok()) {
                  p.trouble = absl::UnavailableError(
                      Cat("the server answers SCRIPT LOAD with '", Text(reply), "' instead of the script's SHA-1"));
                }
              }));
    // All scripts in one buffer would take more memory than a connection ever needs again.
    link.Flush();
  }
  if (options.probe_key.empty()) {
    link.Send(MakeCommand({"PUBLISH", options.grant_channel, ""}),
              Step(progress, "PUBLISH", [](Progress& p, const redisReply& reply) { p.listeners = reply.integer; }));
  } else {
    link.Send(MakeCommand({"EVALSHA", lua::kProbe.sha1, "1", options.probe_key, options.grant_channel}),
              Step(progress, "SPUBLISH in a script", ReadProbe));
  }
  link.Send(MakeCommand({"TIME"}), [progress](const Answer& answer) { Finish(*progress, answer); });
  link.Flush();
}

}  // namespace distlock::store
