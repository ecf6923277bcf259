// SPDX-License-Identifier: Apache-2.0
#include "simulation/front.h"

#include "contract/adopt.h"
#include "contract/downgrade.h"
#include "contract/ids.h"
#include "contract/lease_id.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "distlock/wire/limits.h"

namespace distlock::sim {
namespace {

core::RequestId IdOf(const v1::SessionCommand& command) { return static_cast<core::RequestId>(command.id()); }

}  // namespace

Front::Front(Env& env, Process& broker, std::string broker_id, std::function<void(core::Input)> post)
    : env_(env),
      broker_(broker),
      broker_id_(std::move(broker_id)),
      post_(std::move(post)),
      longest_ttl_(env.settings.longest_ttl) {
  limits_.validity = env.temper.validity;
}

core::OwnerId Front::NewOwner() {
  core::OwnerId owner;
  for (uint8_t& byte : owner) byte = static_cast<uint8_t>(env_.dice.Next());
  if (core::IsDetached(owner) || core::IsTry(owner)) owner[0] = 0;
  return owner;
}

core::OwnerId Front::OwnerOf(const core::Acquire& acquire, const std::string& request_id, uint32_t generation) {
  core::OwnerId owner = NewOwner();
  // The part that tells the try is derived; the rest comes from the simulation's dice.
  const core::OwnerId derived = contract::OwnerIdOnStream(acquire, request_id, generation);
  if (core::IsTry(derived)) std::copy_n(derived.begin(), core::kTryBytes, owner.begin());
  return owner;
}

core::SessionId Front::Accept(const WirePtr& wire, ListenerPtr listener) {
  const core::SessionId id = next_id_++;
  auto stream = std::make_unique<Stream>();
  stream->id = id;
  stream->wire = wire;
  stream->listener = std::move(listener);
  wire->on_closed[Wire::kServer] = [this, id] { StreamOver(id); };
  streams_.emplace(id, std::move(stream));
  return id;
}

// The client has left, or the broker takes it for gone.
void Front::StreamOver(core::SessionId id) {
  auto node = streams_.extract(id);
  if (node.empty()) return;
  Stream& stream = *node.mapped();
  if (stream.kind == Kind::kAcquire && !stream.repeatable && !stream.over) {
    orphans_[id] = core::Release{.name = stream.name, .owner = stream.owner, .ttl = stream.ttl};
  }
  if (stream.told_core) post_(core::StreamEnded{id});
}

void Front::NoteHolder(const Stream& stream) {
  const Process& client = stream.wire->end(Wire::kClient);
  holders_[stream.id] = {&client, client.life()};
}

std::vector<core::SessionId> Front::OpenedBy(const Process& client) const {
  std::vector<core::SessionId> sessions;
  for (const auto& [id, holder] : holders_) {
    if (holder.process == &client && holder.life == client.life()) sessions.push_back(id);
  }
  return sessions;
}

// ---- Session ----

void Front::Session(core::SessionId id, const v1::SessionRequest& request) {
  for (const v1::SessionCommand& command : request.commands()) {
    const auto found = streams_.find(id);
    if (found == streams_.end() || found->second->over) return;
    Handle(*found->second, command);
  }
  const auto found = streams_.find(id);
  if (found != streams_.end()) Pump(*found->second);
}

void Front::Handle(Stream& stream, const v1::SessionCommand& command) {
  if (!stream.opened) {
    if (!command.has_open()) return env_.Fail("a client's session does not begin with Open");
    stream.opened = stream.told_core = true;
    stream.kind = Kind::kSession;
    stream.generation = static_cast<uint32_t>(command.open().generation());
    post_(core::OpenSession{stream.id, core::SessionKind::kSession});
    NoteHolder(stream);
    auto event = std::make_unique<v1::SessionEvent>();
    *event->mutable_opened()->mutable_validity() = contract::ToProto(limits_.validity);
    *event->mutable_opened()->mutable_heartbeat_interval() = contract::ToProto(limits_.validity / 3);
    event->mutable_opened()->set_max_message_bytes(static_cast<int32_t>(wire::kMostMessageBytes));
    return Push(stream, {.id = IdOf(command), .event = {}, .about = {}, .made = std::move(event)});
  }
  if (command.has_heartbeat()) {
    if (!stream.leaving) post_(core::Heartbeat{stream.id, static_cast<uint64_t>(command.heartbeat().seq())});
    return;
  }
  if (stream.leaving) return env_.Fail("a client sends a command after Goodbye");
  if (command.has_goodbye()) {
    stream.leaving = true;
    return post_(core::Goodbye{stream.id});
  }
  if (command.has_cancel()) {
    const auto acquire = static_cast<core::RequestId>(command.cancel().acquire_id());
    if (stream.book.ShardOf(acquire)) post_(core::Cancel{stream.id, acquire});
    return;
  }
  if (stream.book.Has(IdOf(command))) return env_.Fail("a client uses a command id twice");
  if (command.has_acquire()) return HandleAcquire(stream, command);
  if (command.has_release()) return HandleRelease(stream, command);
  if (command.has_downgrade()) return HandleDowngrade(stream, command);
  if (command.has_adopt()) return HandleAdopt(stream, command);
}

void Front::HandleAcquire(Stream& stream, const v1::SessionCommand& command) {
  const auto& specs = command.acquire().locks();
  if (draining_) {
    for (int i = 0; i < specs.size(); ++i) {
      Refuse(stream, IdOf(command) + static_cast<core::RequestId>(i), contract::DrainingRefusal());
    }
    return;
  }
  contract::Validator check(limits_);
  core::AcquireAll all{check.Locks(specs, "acquire.locks", /*detached=*/false)};
  if (!check.ok() && specs.size() == 1) return Refuse(stream, IdOf(command), check.Refusal());
  if (!check.ok()) return env_.Fail("a client asks wrongly for several locks: " + check.Refusal().message());
  for (size_t i = 0; i < all.parts.size(); ++i) {
    core::Acquire& part = all.parts[i];
    part.session = stream.id;
    part.request = IdOf(command) + i;
    part.owner = OwnerOf(part, command.acquire().request_id(), stream.generation);
    part.ttl = Allowed(part.ttl);
    part.info = InfoOf(specs[static_cast<int>(i)]);
    stream.book.AddAcquire(part.request, part.name, part.owner, 0);
    stream.answers[part.request] = Answered::kNot;
  }
  if (all.parts.size() == 1) return post_(std::move(all.parts.front()));
  post_(std::move(all));
}

void Front::HandleRelease(Stream& stream, const v1::SessionCommand& command) {
  const auto target = static_cast<core::RequestId>(command.release().acquire_id());
  if (target == 0) {
    auto lease = contract::DecodeLeaseId(command.release().lease_id());
    if (!lease) return env_.Fail("a lease id cannot be read");
    stream.book.AddRelease(IdOf(command), 0, 0);
    stream.answers[IdOf(command)] = Answered::kNot;
    return post_(core::Release{.session = stream.id,
                               .request = IdOf(command),
                               .name = std::move(lease->name),
                               .owner = lease->owner,
                               .token = lease->token,
                               .ttl = lease->ttl,
                               .lapsed = command.release().lapsed()});
  }
  if (!stream.book.ShardOf(target)) {
    return Push(stream, {.id = IdOf(command),
                         .event = core::Released{.outcome = core::ReleaseOutcome::kAlreadyGone, .name = {}},
                         .about = {},
                         .made = nullptr});
  }
  if (stream.book.IsWaiting(target)) post_(core::Cancel{stream.id, target});
  stream.book.AddRelease(IdOf(command), target, 0);
  stream.answers[IdOf(command)] = Answered::kNot;
  post_(core::Release{.session = stream.id,
                      .request = IdOf(command),
                      .acquire = target,
                      .name = {},
                      .lapsed = command.release().lapsed()});
}

void Front::HandleDowngrade(Stream& stream, const v1::SessionCommand& command) {
  const v1::DowngradeLease& wanted = command.downgrade();
  const auto acquire = static_cast<core::RequestId>(wanted.acquire_id());
  auto checked = contract::CheckDowngrade(limits_, acquire, wanted.lease_id(), "downgrade");
  auto* downgrade = std::get_if<core::Downgrade>(&checked);
  if (downgrade == nullptr) return env_.Fail("a client asks for a downgrade that there is none of");
  if (!stream.book.ShardOf(downgrade->acquire)) {
    return Refuse(stream, IdOf(command),
                  contract::MakeRefusal(core::RefusalReason::kNotHolder, "it is no lease of this session"));
  }
  downgrade->session = stream.id;
  downgrade->request = IdOf(command);
  stream.book.AddRelease(IdOf(command), 0, 0);
  stream.answers[IdOf(command)] = Answered::kNot;
  post_(std::move(*downgrade));
}

void Front::HandleAdopt(Stream& stream, const v1::SessionCommand& command) {
  if (draining_) return Refuse(stream, IdOf(command), contract::DrainingRefusal());
  // The numbers begin anywhere, by the simulation's dice.
  const core::OwnerId fresh = NewOwner();
  if (!stream.adoptions) {
    stream.adoptions.emplace(fresh[12] * 0x1000000u + fresh[13] * 0x10000u + fresh[14] * 0x100u + fresh[15]);
  }
  auto checked = contract::CheckAdopt(limits_, command.adopt(), {stream.generation, stream.adoptions->Next()}, "adopt");
  auto* adopt = std::get_if<core::Adopt>(&checked);
  if (adopt == nullptr) {
    return env_.Fail("a client adopts wrongly: " + std::get<v1::Refusal>(checked).message());
  }
  adopt->session = stream.id;
  adopt->ttl = Allowed(adopt->ttl);
  adopt->request = IdOf(command);
  adopt->info = InfoOf(command.adopt().lock());
  stream.book.AddAcquire(adopt->request, adopt->name, adopt->owner, 0);
  stream.answers[adopt->request] = Answered::kNot;
  post_(std::move(*adopt));
}

void Front::Refuse(Stream& stream, core::RequestId id, v1::Refusal refusal) {
  auto event = std::make_unique<v1::SessionEvent>();
  event->mutable_refused()->Swap(&refusal);
  Push(stream, {.id = id, .event = {}, .about = {}, .made = std::move(event)});
}

void Front::Push(Stream& stream, rpc::Outgoing out) {
  if (!stream.outbox.Push(std::move(out))) env_.Fail("an outbox is full");
}

// One write in flight; events that gather meanwhile leave together.
void Front::Pump(Stream& stream) {
  if (stream.writing) return;
  std::deque<rpc::Outgoing> batch;
  stream.outbox.Take(rpc::kMaxEventsPerMessage, ~size_t{0}, batch);
  if (batch.empty()) {
    if (stream.over) Finish(stream);
    return;
  }
  stream.writing = true;
  auto response = std::make_shared<v1::SessionResponse>();
  rpc::Pack(batch, response.get());
  const core::SessionId id = stream.id;
  // The write is done when the network has taken it, or, with a full buffer, when the client has read it.
  const auto written = [this, id] {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    found->second->writing = false;
    Pump(*found->second);
  };
  if (env_.dice.Chance(0.8)) {
    broker_.PostAfter(env_.dice.Between(Duration(0), microseconds(100)), written);
    SendToClient(stream, [response](Listener& listener) { listener.OnSession(*response); });
  } else {
    SendToClient(stream, [response, written, &broker = broker_, life = broker_.life()](Listener& listener) {
      listener.OnSession(*response);
      if (broker.life() == life) broker.Post(written);
    });
  }
}

void Front::SendToClient(Stream& stream, std::function<void(Listener&)> say) {
  stream.wire->Send(Wire::kServer, [listener = stream.listener, say = std::move(say)] { say(*listener); });
}

void Front::End(Stream& stream, grpc::Status status) {
  if (std::exchange(stream.over, true)) return;
  stream.status = std::move(status);
  if (!stream.writing) Pump(stream);
}

void Front::Finish(Stream& stream) {
  const core::SessionId id = stream.id;
  const WirePtr wire = stream.wire;
  wire->Send(Wire::kServer, [listener = stream.listener, status = stream.status] { listener->OnStatus(status); });
  wire->Finish(Wire::kServer);
  StreamOver(id);
}

}  // namespace distlock::sim
