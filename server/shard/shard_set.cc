// SPDX-License-Identifier: Apache-2.0
#include "shard/shard_set.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "shard/boot_clock.h"
#include "shard/shard.h"

namespace distlock::shard {
namespace {

// FNV-1a, then its high bits folded in: the same in every process and version, unlike std::hash and absl::Hash.
uint64_t StableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash ^ (hash >> 32);
}

// Each shard gets a random sequence of its own, not even a shifted one.
uint64_t SeedOf(uint64_t seed, int index) { return seed ^ StableHash("shard " + std::to_string(index)); }

// Wraps `done`: first tells the observer how long the answer took from now.
template <typename Result>
std::function<void(Result)> Timed(Observer* observer, Question question, const std::function<void(Result)>& done) {
  if (observer == nullptr) return done;
  return [observer, question, done, start = BootNow()](Result result) {
    observer->OnQuestionAnswered(question, BootNow() - start);
    done(std::move(result));
  };
}

// 0: of none.
core::SessionId SessionOf(const core::Input& input) {
  if (const auto* all = std::get_if<core::AcquireAll>(&input)) return all->parts.front().session;
  return std::visit(
      [](const auto& in) -> core::SessionId {
        if constexpr (requires { in.session; }) return in.session;
        return 0;
      },
      input);
}

// `session`: 0 takes that of the input.
Envelope Sealed(core::Input input, core::SessionId session, std::shared_ptr<Sink> sink, MailShare* share) {
  if (session == 0) session = SessionOf(input);
  return {.what = std::move(input), .session = session, .sink = std::move(sink), .share = share};
}

}  // namespace

struct ShardSet::Impl {
  explicit Impl(ShardSetOptions opts);

  void OnDrained(int shard);

  // Returns `taken`, and tells the observer of a full mailbox.
  bool Noted(bool taken) const {
    if (!taken && options.observer != nullptr) options.observer->OnMailboxFull();
    return taken;
  }

  const ShardSetOptions options;
  std::vector<std::unique_ptr<Shard>> shards;
  std::atomic<core::SessionId> last_session = 0;

  // Guarded by drain_mu.
  std::mutex drain_mu;
  std::vector<bool> drained;
  std::vector<std::function<void()>> when_drained;
};

ShardSet::Impl::Impl(ShardSetOptions opts) : options(std::move(opts)), drained(options.shards, false) {
  for (int i = 0; i < options.shards; ++i) {
    ShardSetOptions own = options;
    own.broker.seed = SeedOf(options.broker.seed, i);
    shards.push_back(std::make_unique<Shard>(i, own, [this, i] { OnDrained(i); }));
  }
}

void ShardSet::Impl::OnDrained(int shard) {
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard lock(drain_mu);
    drained[shard] = true;
    if (std::find(drained.begin(), drained.end(), false) != drained.end()) return;
    callbacks.swap(when_drained);
  }
  for (auto& done : callbacks) done();
}

ShardSet::ShardSet(ShardSetOptions options) {
  assert(options.shards >= 1 && options.make_store != nullptr);
  impl_ = std::make_unique<Impl>(std::move(options));
}

ShardSet::~ShardSet() { Stop(); }

void ShardSet::Start() {
  for (auto& shard : impl_->shards) shard->Start();
}

void ShardSet::Stop() {
  for (auto& shard : impl_->shards) shard->Stop();
}

int ShardSet::size() const { return static_cast<int>(impl_->shards.size()); }

int ShardSet::ShardOf(const core::LockName& name) const {
  return static_cast<int>(StableHash(name.escaped()) % impl_->shards.size());
}

core::SessionId ShardSet::NewSessionId() { return impl_->last_session.fetch_add(1, std::memory_order_relaxed) + 1; }

bool ShardSet::TryPost(int shard, core::Input input, core::SessionId session, std::shared_ptr<Sink> sink) {
  return impl_->Noted(impl_->shards[shard]->TryPost(Sealed(std::move(input), session, std::move(sink), nullptr)));
}

bool ShardSet::TryPost(int shard, std::vector<core::Input> inputs, MailShare* share) {
  const auto count = static_cast<int64_t>(inputs.size());
  std::vector<Envelope> envelopes;
  envelopes.reserve(inputs.size());
  for (core::Input& input : inputs) envelopes.push_back(Sealed(std::move(input), 0, nullptr, share));
  if (share != nullptr) share->Posted(count);
  const bool taken = impl_->shards[shard]->TryPost(std::move(envelopes));
  if (!taken && share != nullptr) share->Posted(-count);
  return impl_->Noted(taken);
}

bool ShardSet::TryPostFirst(int shard, core::Input input, std::shared_ptr<Sink> sink, MailShare* share) {
  if (share != nullptr) share->Posted(1);
  const bool taken = impl_->shards[shard]->TryPostFirst(Sealed(std::move(input), 0, std::move(sink), share));
  if (!taken && share != nullptr) share->Posted(-1);
  return impl_->Noted(taken);
}

void ShardSet::Post(int shard, core::Input input, core::SessionId session, std::shared_ptr<Sink> sink,
                    MailShare* share) {
  if (share != nullptr) share->Posted(1);
  impl_->shards[shard]->Post(Sealed(std::move(input), session, std::move(sink), share));
}

void ShardSet::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                       std::function<void(absl::StatusOr<store::LockView>)> done) {
  auto ask = [name, max_waiters, timeout, observer = impl_->options.observer,
              done = std::move(done)](store::StoreReader* store) {
    if (store == nullptr) return done(absl::CancelledError("the broker has stopped; ask another one"));
    store->Inspect(name, max_waiters, timeout, Timed(observer, Question::kInspect, done));
  };
  impl_->shards[ShardOf(name)]->Post(Envelope{.what = StoreQuery(std::move(ask))});
}

void ShardSet::List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size,
                    std::string page_token, core::Duration timeout,
                    std::function<void(absl::StatusOr<store::LockPage>)> done) {
  // Any shard can list the whole store. Picks one by namespace and prefix, so that different searches use different
  // shards.
  const uint64_t pick = StableHash(escaped_namespace + escaped_key_prefix) % impl_->shards.size();
  auto ask = [ns = std::move(escaped_namespace), prefix = std::move(escaped_key_prefix), page_size,
              token = std::move(page_token), timeout, observer = impl_->options.observer,
              done = std::move(done)](store::StoreReader* store) {
    if (store == nullptr) return done(absl::CancelledError("the broker has stopped; ask another one"));
    store->List(ns, prefix, page_size, token, timeout, Timed(observer, Question::kList, done));
  };
  impl_->shards[pick]->Post(Envelope{.what = StoreQuery(std::move(ask))});
}

void ShardSet::AfterTurns(std::function<void()> done) {
  auto left = std::make_shared<std::atomic<size_t>>(impl_->shards.size());
  auto last = std::make_shared<std::function<void()>>(std::move(done));
  for (auto& shard : impl_->shards) {
    shard->Post(Envelope{.what = StoreQuery([left, last](store::StoreReader*) {
                           if (left->fetch_sub(1) == 1) (*last)();
                         })});
  }
}

void ShardSet::Drain(core::Duration timeout, std::function<void()> done) {
  bool already = false;
  {
    std::lock_guard lock(impl_->drain_mu);
    const auto& drained = impl_->drained;
    already = std::find(drained.begin(), drained.end(), false) == drained.end();
    if (!already) impl_->when_drained.push_back(done);
  }
  if (already) {
    impl_->shards[0]->Post(Envelope{.what = StoreQuery([done = std::move(done)](store::StoreReader*) { done(); })});
    return;
  }
  for (auto& shard : impl_->shards) shard->Post(Envelope{.what = core::Drain{.timeout = timeout}});
}

std::vector<ShardStatus> ShardSet::Status() const {
  std::vector<ShardStatus> all;
  all.reserve(impl_->shards.size());
  for (const auto& shard : impl_->shards) all.push_back(shard->Status());
  return all;
}

}  // namespace distlock::shard
