// SPDX-License-Identifier: Apache-2.0
#include "store/redis/lock_listing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "store/redis/error_class.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr size_t kDefaultPage = 100;
constexpr size_t kLargestPage = 500;
constexpr int64_t kScanCount = 1000;
// A namespace may have few locks among many other keys: then the page is short, so that the caller does not wait for
// long.
constexpr int kScansPerPage = 64;
// Commands in one pipeline; renewals queue behind them.
constexpr size_t kInspectsAtOnce = 100;
// Bound of the names in a page token.
constexpr size_t kTokenBytes = 8u << 10;

absl::Status BadToken() {
  return absl::InvalidArgumentError("is not one that ListLocks has given; start again without it");
}

size_t PageSize(uint32_t wanted) { return wanted == 0 ? kDefaultPage : std::min<size_t>(wanted, kLargestPage); }

}  // namespace

std::string PageToken::Encode() const {
  if (scanned_all && names.empty()) return "";
  std::string text = Cat(scanned_all ? "all" : cursor);
  for (const auto& name : names) Append(text, "\n", name.escaped());
  return absl::WebSafeBase64Escape(text);
}

absl::StatusOr<PageToken> PageToken::Decode(std::string_view text, std::string_view within) {
  PageToken token;
  if (text.empty()) return token;
  std::string plain;
  if (!absl::WebSafeBase64Unescape(std::string(text), &plain)) return BadToken();
  const std::vector<std::string_view> lines = Split(plain, "\n");
  token.scanned_all = lines[0] == "all";
  if (!token.scanned_all) {
    if (!ParseNumber(lines[0]) || lines[0].size() > 20) return BadToken();
    token.cursor = std::string(lines[0]);
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    auto name = core::LockName::FromEscaped(lines[i]);
    if (!name) return BadToken();
    if (name->escaped().starts_with(within)) token.names.push_back(*std::move(name));
  }
  return token;
}

LockListing::LockListing(Means means, PendingQueries::Id id, std::string pattern, uint32_t page_size, PageToken from,
                         Done done)
    : means_(means),
      id_(id),
      pattern_(std::move(pattern)),
      page_size_(PageSize(page_size)),
      done_(std::move(done)),
      at_(std::move(from)),
      scan_count_(kScanCount) {}

void LockListing::Step() {
  if (!means_.queries.IsOpen(id_)) return;
  const bool full = page_.locks.size() >= page_size_;
  if (!full && !at_.names.empty()) return InspectNext();
  if (!full && !at_.scanned_all && scans_ < kScansPerPage) return Scan();
  page_.next_page_token = at_.Encode();
  Finish(std::move(page_));
}

void LockListing::Scan() {
  ++scans_;
  const std::string count = Cat(scan_count_);
  means_.link.Send(MakeCommand({"SCAN", at_.cursor, "MATCH", pattern_, "COUNT", count}),
                   [self = shared_from_this()](const Answer& answer) { self->OnScanned(answer); });
  means_.link.Flush();
}

void LockListing::OnScanned(const Answer& answer) {
  if (answer.kind != Answer::Kind::kReply) return Finish(absl::UnavailableError(answer.cause));
  if (IsError(*answer.reply)) {
    return Finish(absl::UnavailableError(Cat("the store refuses SCAN: ", Text(*answer.reply))));
  }
  const ReplyArray reply(*answer.reply);
  const auto cursor = reply.String(0);
  if (!cursor || !ParseNumber(*cursor) || reply.At(1) == nullptr || reply.At(1)->type != REDIS_REPLY_ARRAY) {
    return Finish(absl::UnavailableError("the store's answer to SCAN has an unknown shape"));
  }
  const ReplyArray keys(*reply.At(1));
  std::deque<core::LockName> names;
  size_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    auto name = means_.codec.keys().NameOfHolder(keys.String(i).value_or(""));
    if (!name || !shown_.insert(name->escaped()).second) continue;
    bytes += name->escaped().size();
    names.push_back(*std::move(name));
  }
  const size_t room = page_size_ - page_.locks.size();
  if (names.size() > room && bytes > kTokenBytes && scan_count_ > 1) {
    // Names without room must fit into the token: scan a smaller part of the table from the same cursor.
    for (const auto& name : names) shown_.erase(name.escaped());
    scan_count_ = std::max<int64_t>(1, scan_count_ / 4);
    return Step();
  }
  at_.names = std::move(names);
  at_.cursor = std::string(*cursor);
  at_.scanned_all = *cursor == "0";
  scan_count_ = std::min(kScanCount, scan_count_ * 2);
  Step();
}

void LockListing::InspectNext() {
  const size_t room = page_size_ - page_.locks.size();
  const size_t count = std::min({at_.names.size(), room, kInspectsAtOnce});
  inspecting_ = count;
  for (size_t i = 0; i < count; ++i) {
    const core::LockName name = std::move(at_.names.front());
    at_.names.pop_front();
    std::string call = means_.codec.EncodeInspect(name, 0, kMaxListedHolders);
    means_.scripts.Call(lua::kInspect, std::move(call),
                        [self = shared_from_this(), name](const Answer& answer) { self->OnInspected(name, answer); });
  }
  means_.link.Flush();
}

void LockListing::OnInspected(const core::LockName& name, const Answer& answer) {
  --inspecting_;
  if (answer.kind != Answer::Kind::kReply) return Finish(absl::UnavailableError(answer.cause));
  auto view = Codec::DecodeInspect(name, *answer.reply);
  // Skips foreign keys, locks that were freed meanwhile, and those whose slot has just left this node.
  if (IsError(*answer.reply) && IsRedirect(Text(*answer.reply))) view = LockView{};
  if (!view.ok() && !absl::IsFailedPrecondition(view.status())) return Finish(view.status());
  if (view.ok() && (!view->holders.empty() || view->queue_length > 0)) page_.locks.push_back(*std::move(view));
  if (inspecting_ == 0) Step();
}

void LockListing::Finish(absl::StatusOr<LockPage> result) {
  if (means_.queries.Take(id_)) done_(std::move(result));
}

}  // namespace distlock::store
