// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/lock_pages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "store/redis/wire_value.h"
#include "store/redlock/ballot/merge.h"
#include "store/text.h"

namespace distlock::store {
namespace {

// With the answers of a quorum the others are waited for so long.
constexpr core::Duration kPatience = std::chrono::milliseconds(50);

LockView Merge(std::vector<std::optional<LockView>> views, const core::LockName& name) {
  std::vector<LockView> seen;
  const size_t servers = views.size();
  for (auto& view : views) {
    if (view) seen.push_back(*std::move(view));
  }
  LockView merged = ballot::MergeViews(std::move(seen), servers);
  merged.name = name;
  return merged;
}

}  // namespace

struct LockPages::Listing {
  Servers servers;
  Wanted wanted;
  core::Duration timeout{};
  std::function<void(absl::StatusOr<LockPage>)> done;
  size_t server = 0;        // whose locks the page is made of
  std::string inner_token;  // of that server's listing
  // From when on each of the servers up to that one was listed, in us by its own clock; 0: not known, or it was not. A
  // lock that it has had for longer was shown then.
  std::vector<int64_t> began;
  size_t unreachable = 0;
  std::vector<std::optional<LockView>> found;  // by place in the page; unset: it is not shown here
  size_t waiting = 0;
  absl::Status trouble;  // of a lock that too few servers show

  // SERVER:BEGAN,BEGAN,...:TOKEN of that server's listing. False: it is none.
  bool Resume(std::string_view page_token) {
    const auto [index, behind] = Cut(page_token, ':');
    const auto [times, inner] = Cut(behind, ':');
    int at = 0;
    if (!ReadInt(index, &at) || at < 0 || static_cast<size_t>(at) >= servers.size()) return false;
    server = static_cast<size_t>(at);
    for (const std::string_view time : Split(times, ",")) {
      began.push_back(static_cast<int64_t>(ParseNumber(time).value_or(0)));
    }
    began.resize(server + (inner.empty() ? 0 : 1), 0);
    inner_token = std::string(inner);
    return true;
  }
  std::string TokenFor(size_t next, std::string_view inner) const {
    return Cat(next, ":", absl::StrJoin(began, ","), ":", inner);
  }
  // Whether a server before this one has shown the lock. One that a server has had for a shorter time than its listing
  // may be shown again, so that none is missing.
  bool WasShown(const Views& views) const {
    for (size_t before = 0; before < server; ++before) {
      const auto& view = views[before];
      if (view && std::ranges::any_of(
                      view->holders, [&](const core::HolderView& holder) { return holder.since.us < began[before]; })) {
        return true;
      }
    }
    return false;
  }
};

void LockPages::Stop() {
  for (auto& [id, query] : std::exchange(queries_, {})) {
    if (query.done) query.done(absl::CancelledError("the broker is stopping"));
  }
}

// ---- One lock ----

void LockPages::Inspect(const Servers& servers, const core::LockName& name, uint32_t max_waiters,
                        core::Duration timeout, std::function<void(absl::StatusOr<LockView>)> done) {
  Ask(servers, name, max_waiters, timeout, [name, done = std::move(done)](absl::StatusOr<Views> views) {
    if (!views.ok()) return done(views.status());
    done(Merge(*std::move(views), name));
  });
}

void LockPages::Ask(const Servers& servers, const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                    Seen done) {
  const uint64_t id = ++last_id_;
  Query& query = queries_[id];
  query.views.resize(servers.size());
  query.servers = query.waiting = servers.size();
  query.done = std::move(done);
  query.patience = timers_->Make([this, id] { Finish(id); });
  for (size_t server = 0; server < servers.size(); ++server) {
    servers[server]->queries().Inspect(name, max_waiters, timeout, [this, id, server](absl::StatusOr<LockView> view) {
      OnView(id, server, std::move(view));
    });
  }
}

void LockPages::OnView(uint64_t id, size_t server, absl::StatusOr<LockView> view) {
  const auto found = queries_.find(id);
  if (found == queries_.end()) return;
  Query& query = found->second;
  --query.waiting;
  if (view.ok()) {
    query.views[server] = *std::move(view);
  } else if (query.trouble.ok() || absl::IsFailedPrecondition(view.status())) {
    query.trouble = view.status();
  }
  const size_t seen =
      std::count_if(query.views.begin(), query.views.end(), [](const auto& one) { return one.has_value(); });
  if (query.waiting == 0) return Finish(id);
  if (seen == query.servers / 2 + 1) query.patience->Start(kPatience);
}

void LockPages::Finish(uint64_t id) {
  auto node = queries_.extract(id);
  if (node.empty()) return;
  Query& query = node.mapped();
  const size_t seen =
      std::count_if(query.views.begin(), query.views.end(), [](const auto& one) { return one.has_value(); });
  if (seen > query.servers / 2) return query.done(std::move(query.views));
  query.done(absl::Status(query.trouble.code(), Cat("only ", seen, " of ", query.servers,
                                                    " servers show it: ", View(query.trouble.message()))));
}

// ---- Many ----

void LockPages::List(const Servers& servers, Wanted wanted, const std::string& page_token, core::Duration timeout,
                     std::function<void(absl::StatusOr<LockPage>)> done) {
  auto listing = std::make_shared<Listing>();
  listing->servers = servers;
  listing->wanted = std::move(wanted);
  listing->timeout = timeout;
  listing->done = std::move(done);
  // A wrong token is refused by the server's own listing.
  if (!page_token.empty() && !listing->Resume(page_token)) listing->inner_token = page_token;
  ListFrom(listing);
}

void LockPages::ListFrom(const std::shared_ptr<Listing>& listing) {
  const ServerClock& clock = listing->servers[listing->server]->clock();
  if (listing->inner_token.empty()) {
    listing->began.resize(listing->server, 0);
    listing->began.push_back(clock.known() ? clock.ShownBy(timers_->Now()).us : 0);
  }
  listing->began.resize(listing->server + 1, 0);  // also for a token that is none of ours
  listing->servers[listing->server]->queries().List(
      listing->wanted.escaped_namespace, listing->wanted.escaped_key_prefix, listing->wanted.page_size,
      listing->inner_token, listing->timeout,
      [this, listing](absl::StatusOr<LockPage> page) { OnPage(listing, std::move(page)); });
}

void LockPages::OnPage(const std::shared_ptr<Listing>& listing, absl::StatusOr<LockPage> page) {
  if (!page.ok()) {
    const bool passes = absl::IsUnavailable(page.status()) && listing->server + 1 < listing->servers.size() &&
                        ++listing->unreachable <= listing->servers.size() / 2;
    if (!passes) return listing->done(page.status());
    // The locks that this server would show are known to others, too.
    listing->began[listing->server++] = 0;
    listing->inner_token.clear();
    return ListFrom(listing);
  }
  const bool more_here = !page->next_page_token.empty();
  const size_t next = more_here ? listing->server : listing->server + 1;
  listing->inner_token = next == listing->servers.size() ? "" : listing->TokenFor(next, page->next_page_token);
  listing->found.resize(page->locks.size());
  listing->waiting = page->locks.size();
  if (page->locks.empty())
    return listing->done(LockPage{.locks = {}, .next_page_token = listing->inner_token, .held_off = {}});
  for (size_t at = 0; at < page->locks.size(); ++at) {
    const core::LockName name = page->locks[at].name;
    listing->found[at] = LockView{.name = name, .holders = {}, .waiters = {}};
    Ask(listing->servers, name, 0, listing->timeout,
        [this, listing, at](absl::StatusOr<Views> views) { OnListed(listing, at, std::move(views)); });
  }
}

void LockPages::OnListed(const std::shared_ptr<Listing>& listing, size_t at, absl::StatusOr<Views> views) {
  if (views.ok()) {
    const bool shown = listing->WasShown(*views);
    LockView merged = Merge(*std::move(views), listing->found[at]->name);
    if (merged.holders.size() > kMaxListedHolders) merged.holders.resize(kMaxListedHolders);
    listing->found[at] = shown || merged.holders.empty() ? std::nullopt : std::optional(std::move(merged));
  } else {
    // A page without it would look complete.
    listing->trouble = views.status();
  }
  if (--listing->waiting > 0) return;
  if (!listing->trouble.ok()) return listing->done(listing->trouble);
  LockPage page{.locks = {}, .next_page_token = listing->inner_token, .held_off = {}};
  for (auto& view : listing->found) {
    if (view) page.locks.push_back(*std::move(view));
  }
  listing->done(std::move(page));
}

}  // namespace distlock::store
