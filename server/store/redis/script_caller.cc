// SPDX-License-Identifier: Apache-2.0
#include "store/redis/script_caller.h"

#include <algorithm>
#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/resp.h"

namespace distlock::store {
namespace {

constexpr int kResends = 2;

}  // namespace

const std::vector<const lua::ScriptSource*>& AllScripts() {
  static const auto* const kAll = new std::vector<const lua::ScriptSource*>{
      &lua::kAcquire,  &lua::kAcquireAll, &lua::kBatch,   &lua::kRenew,  &lua::kRelease,
      &lua::kWithdraw, &lua::kTend,       &lua::kInspect, &lua::kWatch,  &lua::kDowngrade,
      &lua::kForce,    &lua::kAdopt,      &lua::kWanted,  &lua::kCensus, &lua::kProbe};
  return *kAll;
}

std::string LoadCommand(const lua::ScriptSource& script) { return MakeCommand({"SCRIPT", "LOAD", script.body}); }

void ScriptCaller::Call(const lua::ScriptSource& script, std::string call, CommandSender::Done done) {
  Send(script, std::make_unique<const std::string>(std::move(call)), kResends, std::move(done));
}

void ScriptCaller::Send(const lua::ScriptSource& script, std::unique_ptr<const std::string> call, int tries_left,
                        CommandSender::Done done) {
  const std::string& bytes = *call;
  sender_->Send(
      bytes, [this, &script, tries_left, call = std::move(call), done = std::move(done)](const Answer& answer) mutable {
        const bool missing = answer.kind == Answer::Kind::kReply && IsError(*answer.reply) &&
                             ClassifyError(Text(*answer.reply)) == ErrorClass::kNoScript;
        if (!missing || tries_left == 0) return done(answer);
        Load(script);
        Send(script, std::move(call), tries_left - 1, std::move(done));
        sender_->Flush();
      });
}

void ScriptCaller::Load(const lua::ScriptSource& script) {
  // A load that is under way is answered before anything that is sent from now on.
  if (std::find(loading_.begin(), loading_.end(), &script) != loading_.end()) return;
  loading_.push_back(&script);
  sender_->Send(LoadCommand(script), [this, &script](const Answer&) { std::erase(loading_, &script); });
}

}  // namespace distlock::store
