// SPDX-License-Identifier: Apache-2.0
#include "main/page.h"

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/limits.h"
#include "contract/to_proto.h"
#include "contract/validate.h"
#include "web/messages.h"
#include "web/routes.h"

namespace distlock {
namespace {

constexpr uint32_t kLocksShown = 100;
constexpr int kHoldersShown = 4;
constexpr uint32_t kWaitersShown = 20;
constexpr core::Duration kTimeout = std::chrono::seconds(1);

std::string ValueOf(const web::Fields& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return "";
}

// Awaits what `ask` hands to its argument, within a turn of a shard, later.
template <typename Answer>
absl::StatusOr<Answer> Await(const std::function<void(std::function<void(absl::StatusOr<Answer>)>)>& ask) {
  // Shared, because the answer may come after this function has given up waiting.
  auto answer = std::make_shared<std::promise<absl::StatusOr<Answer>>>();
  auto answered = answer->get_future();
  ask([answer](absl::StatusOr<Answer> got) { answer->set_value(std::move(got)); });
  if (answered.wait_for(2 * kTimeout) != std::future_status::ready) {
    return absl::DeadlineExceededError("the store does not answer");
  }
  return answered.get();
}

std::string Counters(const Metrics& metrics) {
  // As whole numbers: as a double, StrCat would round it.
  const auto whole = [](double value) { return static_cast<int64_t>(value); };
  return absl::StrCat("{\"grants\":", whole(metrics.grants.Value()), ",\"refusals\":", whole(metrics.refusals.Sum()),
                      ",\"releases\":", whole(metrics.releases.Sum()), ",\"lost\":", whole(metrics.lost.Sum()), "}");
}

absl::StatusOr<v1::ListLocksResponse> Listed(const PageSource& source, const web::Fields& fields) {
  const contract::Limits any;
  contract::Validator check(any);
  const contract::LockSearch search = check.Search(ValueOf(fields, "namespace"), ValueOf(fields, "prefix"));
  if (!check.ok()) return absl::InvalidArgumentError(check.Refusal().message());
  const auto page = Await<store::LockPage>([&](auto done) {
    source.shards.List(search.escaped_namespace, search.escaped_prefix, kLocksShown, ValueOf(fields, "page"), kTimeout,
                       std::move(done));
  });
  if (!page.ok()) return page.status();
  v1::ListLocksResponse list;
  list.set_next_page_token(page->next_page_token);
  if (page->held_off > core::Duration::zero()) *list.mutable_hold_off() = contract::ToProto(page->held_off);
  for (const store::LockView& view : page->locks) {
    v1::LockInfo lock = contract::ListedLockOf(view);
    if (lock.holders_size() == 0 && !lock.has_block() && lock.queue_length() == 0) continue;
    while (lock.holders_size() > kHoldersShown) lock.mutable_holders()->RemoveLast();
    for (v1::Holder& holder : *lock.mutable_holders()) holder.clear_metadata();
    *list.add_locks() = std::move(lock);
  }
  return list;
}

absl::StatusOr<v1::LockInfo> Looked(const PageSource& source, const web::Fields& fields) {
  const contract::Limits any;
  contract::Validator check(any);
  const core::LockName name = check.Name(ValueOf(fields, "lockNamespace"), ValueOf(fields, "lock"), "");
  if (!check.ok()) return absl::InvalidArgumentError(check.Refusal().message());
  auto view =
      Await<store::LockView>([&](auto done) { source.shards.Inspect(name, kWaitersShown, kTimeout, std::move(done)); });
  if (!view.ok()) return view.status();
  view->name = name;
  return contract::LockOf(*view);
}

// "": they may be shown.
std::string WhyHidden(const PageSource& source, const std::string& ns, const std::string& prefix) {
  if (!source.shows_locks) {
    return "Locks are not shown: --http is not loopback, or --http-page is off. With --http-page on everybody who "
           "reaches this page sees them.";
  }
  // A viewer of the page has proven nothing.
  if (!source.server.MayEverybodyList(contract::NamespaceOf(ns), prefix)) {
    return "Locks are not shown: the policy does not let everybody list these. Search in a namespace that it opens.";
  }
  return "";
}

}  // namespace

std::string PageJson(const PageSource& source, std::string_view query) {
  const auto fields = web::QueryFields(query).value_or(web::Fields());
  std::string hidden = WhyHidden(source, ValueOf(fields, "namespace"), ValueOf(fields, "prefix"));
  std::string list = "null";
  std::string lock = "null";
  if (hidden.empty()) {
    const auto listed = Listed(source, fields);
    listed.ok() ? list = web::ToJson(*listed) : hidden = std::string(listed.status().message());
    // Not after a store that has not answered.
    if (listed.ok() && !ValueOf(fields, "lock").empty() &&
        WhyHidden(source, ValueOf(fields, "lockNamespace"), ValueOf(fields, "lock")).empty()) {
      if (const auto looked = Looked(source, fields); looked.ok()) lock = web::ToJson(*looked);
    }
  }
  return absl::StrCat("{\"problem\":", web::Quoted(source.problem), ",\"status\":", web::ToJson(source.server.Status()),
                      ",\"counters\":", Counters(source.metrics), ",\"hidden\":", web::Quoted(hidden),
                      ",\"list\":", list, ",\"lock\":", lock, "}\n");
}

}  // namespace distlock
