// SPDX-License-Identifier: Apache-2.0
#include "top_picture.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "printable.h"

namespace distlock::cli {
namespace {

// No screen shows more, and listing locks must stay cheap for the store.
constexpr size_t kMostLocks = 2000;

const char* ModeName(v1::LockMode mode) {
  if (mode == v1::LOCK_MODE_SHARED) return "shared";
  return mode == v1::LOCK_MODE_PERMIT ? "permit" : "exclusive";
}

bool Before(const v1::LockInfo& a, const v1::LockInfo& b, View::Order order) {
  const auto by = [&](const v1::LockInfo& lock) {
    const int32_t queue = -lock.queue_length();
    const int32_t holders = -lock.holder_count();
    if (order == View::Order::kName) return std::make_tuple(0, 0, lock.key());
    if (order == View::Order::kHolders) return std::make_tuple(holders, queue, lock.key());
    return std::make_tuple(queue, holders, lock.key());
  };
  return by(a) < by(b);
}

const char* OrderName(View::Order order) {
  if (order == View::Order::kName) return "name";
  return order == View::Order::kHolders ? "holders" : "queue";
}

std::string Row(const v1::LockInfo& lock) {
  const std::string key = Column(lock.key(), 40);
  std::string counts = absl::StrFormat("%s %7d %7d", key, lock.queue_length(), lock.holder_count());
  if (lock.holders().empty() && !lock.has_block()) return counts;
  if (lock.holders().empty()) {
    return absl::StrFormat("%s  %-9s %9s  %s", counts, "blocked", FormatDuration(FromProto(lock.block().time_left())),
                           Printable(lock.block().owner()));
  }
  const v1::Holder& holder = lock.holders(0);
  return absl::StrFormat("%s  %-9s %9s  %s%s", counts, ModeName(holder.mode()),
                         FormatDuration(FromProto(holder.time_left())), Printable(holder.owner()),
                         lock.holder_count() > 1 ? absl::StrCat(" and ", lock.holder_count() - 1, " more") : "");
}

std::vector<std::string> Head(const Seen& seen, const View& view) {
  const v1::GetStatusResponse& status = seen.status;
  int64_t waiting = 0;
  for (const v1::LockInfo& lock : seen.locks) waiting += lock.queue_length();
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat("distlock ", Printable(status.version()), "  broker ", Printable(status.broker_id()),
                               "  up ", FormatDuration(FromProto(status.uptime())), "  store ",
                               status.store_state() == v1::STORE_STATE_UP ? "up" : "DOWN",
                               status.draining() ? "  DRAINING" : ""));
  lines.push_back(absl::StrFormat(
      "broker: %d streams, %d leases, %d waiters   namespace %s: %d%s locks, %d waiting, %.1f grants/s", seen.streams,
      status.leases(), status.waiters(), Printable(view.name_space.empty() ? "default" : view.name_space),
      seen.locks.size(), seen.more_locks ? "+" : "", waiting, seen.grants_per_s));
  if (view.typing) {
    lines.push_back(absl::StrCat("namespace: ", Printable(*view.typing), "_"));
  } else if (seen.failure) {
    lines.push_back("! " + Printable(seen.failure->message.empty() ? seen.failure->reason : seen.failure->message));
  } else {
    lines.push_back(absl::StrCat("sorted by ", OrderName(view.order), "   q quit, s sort, n namespace"));
  }
  lines.push_back(absl::StrFormat("%-40s %7s %7s  %-9s %9s  %s", "KEY", "QUEUE", "HOLDERS", "MODE", "LEFT", "HOLDER"));
  return lines;
}

}  // namespace

LockSource::LockSource(const Context& context, std::shared_ptr<grpc::Channel> channel)
    : context_(context), channel_(std::move(channel)) {}

bool LockSource::Look(const std::string& name_space) {
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + context_.connect_timeout);
  grpc::Status status = v1::AdminService::NewStub(channel_)->GetStatus(&call, {}, &seen_.status);
  if (status.ok()) status = LookAtSessions();
  if (status.ok()) status = LookAtLocks(name_space);
  seen_.failure.reset();
  if (!status.ok()) seen_.failure = FailureFrom(status);
  return status.ok();
}

grpc::Status LockSource::LookAtLocks(const std::string& name_space) {
  const auto stub = v1::LockService::NewStub(channel_);
  v1::ListLocksRequest request;
  request.set_namespace_(name_space);
  request.set_page_size(1000);
  std::vector<v1::LockInfo> locks;
  do {
    v1::ListLocksResponse page;
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + context_.connect_timeout);
    const grpc::Status status = stub->ListLocks(&call, request, &page);
    if (!status.ok()) return status;
    locks.insert(locks.end(), page.locks().begin(), page.locks().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && locks.size() < kMostLocks);
  seen_.more_locks = !request.page_token().empty();
  seen_.locks.swap(locks);
  CountGrants(locks);
  return grpc::Status::OK;
}

grpc::Status LockSource::LookAtSessions() {
  const auto stub = v1::AdminService::NewStub(channel_);
  v1::ListSessionsRequest request;
  request.set_page_size(1000);
  size_t streams = 0;
  do {
    v1::ListSessionsResponse page;
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + context_.connect_timeout);
    const grpc::Status status = stub->ListSessions(&call, request, &page);
    // An older broker cannot list its streams, but counts them.
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      streams = static_cast<size_t>(seen_.status.sessions());
      break;
    }
    if (!status.ok()) return status;
    streams += static_cast<size_t>(page.sessions_size());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  seen_.streams = streams;
  return grpc::Status::OK;
}

void LockSource::CountGrants(const std::vector<v1::LockInfo>& before) {
  const auto now = std::chrono::steady_clock::now();
  std::map<std::pair<std::string, std::string>, int64_t> tokens;
  for (const v1::LockInfo& lock : before) tokens[{lock.namespace_(), lock.key()}] = lock.fencing_token();
  size_t grants = 0;
  for (const v1::LockInfo& lock : seen_.locks) {
    const auto known = tokens.find({lock.namespace_(), lock.key()});
    if (known == tokens.end() || known->second != lock.fencing_token()) ++grants;
  }
  const double passed_s = looked_at_ ? std::chrono::duration<double>(now - *looked_at_).count() : 0;
  seen_.grants_per_s = passed_s > 0 ? static_cast<double>(grants) / passed_s : 0;
  looked_at_ = now;
}

std::vector<std::string> Picture(const Seen& seen, const View& view) {
  std::vector<std::string> lines = Head(seen, view);
  std::vector<const v1::LockInfo*> sorted;
  for (const v1::LockInfo& lock : seen.locks) sorted.push_back(&lock);
  std::sort(sorted.begin(), sorted.end(),
            [&](const v1::LockInfo* a, const v1::LockInfo* b) { return Before(*a, *b, view.order); });
  for (size_t i = view.first; i < sorted.size() && lines.size() < view.rows; ++i) lines.push_back(Row(*sorted[i]));
  if (lines.size() > view.rows) lines.resize(view.rows);
  return lines;
}

}  // namespace distlock::cli
