// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/cluster_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "store/cluster/redirect.h"
#include "store/text.h"

namespace distlock::store {
namespace {

// A part of the Cluster that is not up after this time does not hold up the others.
constexpr core::Duration kSettle = std::chrono::seconds(1);
// Slots that move one after the other are told of together.
constexpr core::Duration kSlotsMoved = std::chrono::seconds(1);
// A slot that is on its way is asked for again after this time.
constexpr core::Duration kLookAgain = std::chrono::milliseconds(20);

absl::Status BadToken() {
  return absl::InvalidArgumentError("is not one that ListLocks has given; start again without it");
}

}  // namespace

ClusterStore::ClusterStore(const Network& network, const StoreOptions& options)
    : timers_(network.timers),
      nodes_(network, options, this),
      commands_(network.timers, options.locks.key_prefix, &nodes_,
                [this](core::StoreReply&& reply) { Tell(std::move(reply)); }),
      queries_(network.timers),
      later_timer_(network.timers->Make([this] {
        for (const auto& task : std::exchange(later_, {})) task();
      })),
      settle_timer_(network.timers->Make([this] {
        if (!told_up_ && nodes_.any_up()) TellUp();
      })),
      moved_timer_(network.timers->Make([this] {
        if (told_up_) Tell(core::ChannelUp{});
      })) {}

void ClusterStore::Start(StoreListener* listener) {
  listener_ = listener;
  nodes_.Start();
}

void ClusterStore::Stop() {
  listener_ = nullptr;
  later_timer_->Stop();
  settle_timer_->Stop();
  moved_timer_->Stop();
  nodes_.Stop();
  commands_.Stop();
  later_.clear();
  queries_.RefuseAll(absl::CancelledError("the broker is stopping"));
}

void ClusterStore::Tell(core::Input&& input) {
  if (listener_ != nullptr) listener_->OnStoreInput(std::move(input));
}

// ---- Up and down ----

void ClusterStore::OnNodeInput(NodeNumber /*from*/, core::Input&& input) {
  if (auto* reply = std::get_if<core::StoreReply>(&input)) return commands_.OnReply(std::move(*reply));
  if (const auto* up = std::get_if<core::StoreUp>(&input)) {
    renew_all_ |= up->renew_all;
    return told_up_ ? TellUp() : TellUpWhenReady();
  }
  if (std::holds_alternative<core::StoreDown>(input)) {
    if (nodes_.any_up()) return;
    const bool was_up = std::exchange(told_up_, false);
    if (was_up || told_cause_ != nodes_.trouble()) {
      told_cause_ = nodes_.trouble();
      Tell(core::StoreDown{told_cause_});
    }
    return;
  }
  // The first StoreUp tells the core of these, too.
  const bool of_the_whole =
      std::holds_alternative<core::ChannelUp>(input) || std::holds_alternative<core::StoreClockStep>(input);
  if (told_up_ || !of_the_whole) Tell(std::move(input));
}

void ClusterStore::OnNodesChanged() {
  TellUpWhenReady();
  // A notice may have gone to where a slot was: the core is to look at its queues, once for many slots.
  if (std::exchange(told_changes_, nodes_.map().changes()) == nodes_.map().changes()) return;
  if (told_up_ && !moved_timer_->active()) moved_timer_->Start(kSlotsMoved);
}

void ClusterStore::TellUpWhenReady() {
  if (told_up_ || listener_ == nullptr) return;
  if (nodes_.all_up()) return TellUp();
  if (nodes_.any_up() && !settle_timer_->active()) settle_timer_->Start(kSettle);
}

void ClusterStore::TellUp() {
  settle_timer_->Stop();
  const bool first = !std::exchange(told_up_, true);
  told_cause_.clear();
  Tell(core::StoreUp{.renew_all = std::exchange(renew_all_, false)});
  if (first) Tell(core::ChannelUp{});
}

bool ClusterStore::OnNodeRedirect(NodeNumber from, core::OpId op, std::string_view error) {
  return commands_.OnRedirect(from, op, error);
}

// ---- Queries ----

void ClusterStore::RefuseSoon(PendingQueries::Id id, absl::Status why) {
  later_.emplace_back([this, id, why = std::move(why)] { queries_.Refuse(id, why); });
  later_timer_->Start(core::Duration::zero());
}

void ClusterStore::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                           std::function<void(absl::StatusOr<LockView>)> done) {
  const auto pending = std::make_shared<PendingInspect>(PendingInspect{name, max_waiters, timeout, 0, std::move(done)});
  pending->id = queries_.Open(timeout, [pending](absl::Status why) { pending->done(std::move(why)); });
  InspectAt(pending);
}

void ClusterStore::InspectAt(const std::shared_ptr<PendingInspect>& pending) {
  if (!queries_.IsOpen(pending->id)) return;
  const NodeNumber number = nodes_.At(commands_.SlotOfLock(pending->name));
  ServerNode* const node = nodes_.Node(number);
  if (node == nullptr) {
    return RefuseSoon(pending->id, absl::UnavailableError(nodes_.any_up() ? "no node of the Cluster has the lock's slot"
                                                                          : nodes_.trouble()));
  }
  const auto redirected = [this, pending, number](std::string_view error) {
    const auto redirect = ParseRedirect(error, nodes_.Address(number));
    if (redirect) nodes_.Count(redirect->kind);
    const bool moved =
        redirect && redirect->kind == Redirect::Kind::kMoved && redirect->to && redirect->to != nodes_.Address(number);
    if (moved) nodes_.Moved(redirect->slot, *redirect->to, number);
    InspectLater(pending);
    return true;
  };
  node->queries().Inspect(
      pending->name, pending->max_waiters, pending->timeout,
      [this, pending](absl::StatusOr<LockView> view) {
        if (queries_.Take(pending->id)) pending->done(std::move(view));
      },
      redirected);
}

void ClusterStore::InspectLater(const std::shared_ptr<PendingInspect>& pending) {
  later_.emplace_back([this, pending] { InspectAt(pending); });
  if (!later_timer_->active()) later_timer_->Start(kLookAgain);
}

void ClusterStore::List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size,
                        std::string page_token, core::Duration timeout,
                        std::function<void(absl::StatusOr<LockPage>)> done) {
  const auto id = queries_.Open(timeout, done);
  const auto [at, inner] = Cut(page_token, '.');
  const bool names_node = page_token.find('.') != std::string::npos && !at.empty();
  if (!page_token.empty() && !names_node) return RefuseSoon(id, BadToken());
  // The node that the token names, or, when it is gone, the one behind it.
  NodeNumber here = kNoNode;
  std::string here_id, next_id;
  size_t walked = 0;  // slots
  const auto known = static_cast<NodeNumber>(nodes_.map().nodes().size());
  for (NodeNumber number = 0; number < known; ++number) {
    const auto& node = nodes_.map().nodes()[number];
    if (!node || node->slots == 0 || node->id.empty()) continue;
    walked += node->slots;
    if (node->id < at) continue;
    if (here == kNoNode || node->id < here_id) {
      next_id = here == kNoNode ? next_id : here_id;
      here = number;
      here_id = node->id;
    } else if (next_id.empty() || node->id < next_id) {
      next_id = node->id;
    }
  }
  // The node that was asked first may have named itself alone: without the others the list would look complete.
  if (walked < kSlots) {
    const std::string cause = nodes_.any_up() ? "not all slots of the Cluster have a known node" : nodes_.trouble();
    return RefuseSoon(id, absl::UnavailableError(cause));
  }
  ServerNode* const node = nodes_.Node(here);
  if (node == nullptr) {
    later_.emplace_back([this, id, done] {
      if (queries_.Take(id)) done(LockPage{});
    });
    later_timer_->Start(core::Duration::zero());
    return;
  }
  node->queries().List(escaped_namespace, escaped_key_prefix, page_size, here_id == at ? std::string(inner) : "",
                       timeout, [this, id, done, here_id, next_id](absl::StatusOr<LockPage> page) {
                         if (!queries_.Take(id)) return;
                         if (page.ok() && !page->next_page_token.empty()) {
                           page->next_page_token = Cat(here_id, ".", page->next_page_token);
                         } else if (page.ok() && !next_id.empty()) {
                           page->next_page_token = Cat(next_id, ".");
                         }
                         done(std::move(page));
                       });
}

}  // namespace distlock::store
