// SPDX-License-Identifier: Apache-2.0
#include "lookups.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "channel.h"
#include "distlock/wire/bearer.h"
#include "lock_table.h"
#include "tls_channel.h"

namespace distlock::internal {
namespace {

using Clock = std::chrono::steady_clock;

// The present broker's, before the others are asked as well.
constexpr auto kHeadStart = std::chrono::milliseconds(100);
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);
// With one broker: only Close and a cancellation are looked for, since the wait itself ends with the connection.
constexpr auto kBetweenLooksAtOne = std::chrono::milliseconds(50);

// A century is beyond what a clock can be asked to wait for.
Clock::time_point After(Duration patience) {
  return Clock::now() + std::min<Duration>(patience, std::chrono::hours(24 * 365 * 100));
}

std::chrono::system_clock::time_point WallTimeAfter(Clock::duration wait) {
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(wait);
}

// A channel does not say why it is not connected. A call that does not wait for the connection fails with the reason.
std::string CauseOf(const Lookups::Connection& connection) {
  grpc::ClientContext call;
  call.set_deadline(WallTimeAfter(std::chrono::milliseconds(200)));
  v1::GetStatusResponse ignored;
  const grpc::Status status = connection.admin->GetStatus(&call, {}, &ignored);
  const bool silent = status.ok() || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (silent || status.error_message().empty()) return "no answer";
  return ConnectFailure(connection.address, status.error_message());
}

}  // namespace

void Lookups::Connection::Authorize(grpc::ClientContext& call) const {
  if (const auto bearer = wire::BearerFor(address, token_file)) call.AddMetadata(wire::kAuthorization, *bearer);
}

Lookups::Lookups(const ClientOptions& options, std::vector<std::string> addresses)
    : options_(options), addresses_(std::move(addresses)), connections_(addresses_.size()) {}

void Lookups::Follow(const std::string& address) {
  std::vector<ConnectionPtr> last;  // their calls keep them
  MutexLock lock(&mu_);
  const auto found = std::find(addresses_.begin(), addresses_.end(), address);
  if (found == addresses_.begin() || found == addresses_.end()) return;
  std::iter_swap(addresses_.begin(), found);
  last.swap(connections_);
  connections_.resize(addresses_.size());
}

Lookups::ConnectionPtr Lookups::Make(const std::string& address) const {
  auto made = std::make_shared<Connection>();
  made->address = address;
  made->token_file = options_.token_file;
  made->channel = MakeChannel(options_, address);
  made->locks = v1::LockService::NewStub(made->channel);
  made->admin = v1::AdminService::NewStub(made->channel);
  return made;
}

Lookups::ConnectionPtr Lookups::Present() {
  MutexLock lock(&mu_);
  if (closed_) return nullptr;
  if (connections_.front() == nullptr) connections_.front() = Make(addresses_.front());
  return connections_.front();
}

std::vector<Lookups::ConnectionPtr> Lookups::All() {
  MutexLock lock(&mu_);
  if (closed_) return {};
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (connections_[i] == nullptr) connections_[i] = Make(addresses_[i]);
  }
  return connections_;
}

void Lookups::Use(const ConnectionPtr& found) {
  std::vector<ConnectionPtr> last;
  MutexLock lock(&mu_);
  if (closed_) return;
  const auto at = std::find(addresses_.begin(), addresses_.end(), found->address);
  std::iter_swap(addresses_.begin(), at);
  last.swap(connections_);
  connections_.resize(addresses_.size());
  connections_.front() = found;
}

Result<Lookups::ConnectionPtr> Lookups::Find(Duration patience, const std::stop_token& cancel) {
  const ConnectionPtr present = Present();
  if (present == nullptr) return ClosedRefusal();
  if (present->channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) return present;
  const auto begun = Clock::now();
  const auto deadline = After(patience);
  std::vector<ConnectionPtr> asked = {present};
  bool asked_all = false;
  while (true) {
    bool failed = false;
    for (const ConnectionPtr& connection : asked) {
      const grpc_connectivity_state state = connection->channel->GetState(/*try_to_connect=*/true);
      failed = state == GRPC_CHANNEL_TRANSIENT_FAILURE;
      if (state != GRPC_CHANNEL_READY) continue;
      if (asked.size() > 1) Use(connection);  // the connections to the others end
      return connection;
    }
    const auto now = Clock::now();
    if (closing().stop_requested()) return ClosedRefusal();
    if (cancel.stop_requested()) return CancelledRefusal();
    if (now >= deadline) break;
    if (!asked_all && (failed || now >= begun + kHeadStart)) {
      asked_all = true;
      asked = All();
      if (asked.empty()) return ClosedRefusal();
      if (asked.size() > 1) continue;
    }
    const auto look = asked_all && asked.size() == 1 ? kBetweenLooksAtOne : kBetweenLooks;
    present->channel->WaitForConnected(WallTimeAfter(std::min<Clock::duration>(look, deadline - now)));
  }
  std::vector<std::string> addresses;
  for (const ConnectionPtr& connection : All()) addresses.push_back(connection->address);
  Refusal refusal{.reason = RefusalReason::kUnreachable, .cause = CauseOf(*present)};
  refusal.message = absl::StrCat("no broker at ", absl::StrJoin(addresses, ","), " answered within ",
                                 std::chrono::duration_cast<std::chrono::milliseconds>(patience).count(),
                                 " ms: ", refusal.cause, "; check that distlockd runs there, or set DISTLOCK_SERVER");
  return refusal;
}

void Lookups::Close() {
  std::vector<ConnectionPtr> last;
  {
    MutexLock lock(&mu_);
    closed_ = true;
    last.swap(connections_);
    connections_.resize(addresses_.size());
  }
  closing_.request_stop();
}

}  // namespace distlock::internal
