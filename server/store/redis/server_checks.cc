// SPDX-License-Identifier: Apache-2.0
#include "store/redis/server_checks.h"

#include <utility>
#include <variant>

namespace distlock::store {

ServerChecks::ServerChecks(NodeContext& context, const std::vector<const lua::ScriptSource*>& more_scripts,
                           std::shared_ptr<AssertedTtls> ttls, Owner* owner)
    : context_(context),
      owner_(owner),
      scripts_to_load_(AllScripts()),
      schema_(&context.link, &context.scripts, context.timers, context.options, this),
      census_(&context.link, &context.scripts, context.timers, context.options, std::move(ttls), this) {
  scripts_to_load_.insert(scripts_to_load_.end(), more_scripts.begin(), more_scripts.end());
  if (schema_.on()) scripts_to_load_.push_back(&lua::kSchema);
  if (census_.on()) context.codec.Obey(&census_.census(), context.timers.get());
}

void ServerChecks::Begin() {
  const Codec& codec = context_.codec;
  PreparationOptions options{.grant_channel = codec.grant_channel(),
                             .scripts = scripts_to_load_,
                             .of_cluster = context_.shard.has_value(),
                             .probe_key = {}};
  if (context_.HasShardChannel()) options.probe_key = codec.keys().Marker(context_.shard->other_tag);
  Prepare(context_.link, options, [this](const absl::StatusOr<Prepared>& prepared) { OnPrepared(prepared); });
}

void ServerChecks::Stop() {
  schema_.Stop();
  census_.Stop();
}

void ServerChecks::MarkAt(const std::string& tag) {
  const Keys& keys = context_.codec.keys();
  schema_.MarkAt(keys.Schema(tag));
  census_.MarkAt(keys.Marker(tag), keys.Heartbeat(tag));
}

void ServerChecks::OnPrepared(const absl::StatusOr<Prepared>& prepared) {
  if (!prepared.ok()) return context_.link.Reconnect(prepared.status());
  prepared_ = *prepared;
  if (schema_.on()) return schema_.Begin();
  OnSchemaRead();
}

void ServerChecks::OnSchemaRead() {
  if (census_.on()) return census_.Begin(prepared_.identity, prepared_.started, prepared_.time);
  OnCensusReady();
}

void ServerChecks::OnSent(const core::StoreCommand& command) {
  if (const auto* acquire = std::get_if<core::StoreAcquire>(&command)) return census_.OnTtl(acquire->ttl);
  if (const auto* all = std::get_if<core::StoreAcquireAll>(&command)) {
    for (const core::StoreAcquire& item : all->items) census_.OnTtl(item.ttl);
  }
}

// A renewal that does nothing counts for nothing: whoever makes up a lease may ask for one, with any ttl. The lease's
// own grant was heard, and its holder believes in no more before this.
void ServerChecks::OnAnswered(const SentCommand& sent, const core::StoreReply& reply) {
  const auto* const done = std::get_if<core::RenewDoneBatch>(&reply.outcome);
  const bool may_have_run = std::holds_alternative<core::StoreUnknown>(reply.outcome);
  for (size_t i = 0; i < sent.ttls.size(); ++i) {
    const bool has_run = done != nullptr && done->results[i] == core::RenewResult::kRenewed;
    if (has_run || may_have_run) census_.OnTtl(sent.ttls[i]);
  }
}

void ServerChecks::OnCensusWarning(const std::string& warning) {
  if (context_.options.on_warning) context_.options.on_warning(warning);
}

void ServerChecks::OnReplicated() {
  if (context_.options.on_replicated) context_.options.on_replicated();
}

}  // namespace distlock::store
