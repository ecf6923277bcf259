// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/slots_reply.h"

#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::store {
namespace {

absl::Status UnknownShape() {
  return absl::UnavailableError("the server's answer to CLUSTER SLOTS has an unknown shape");
}

// first, last, then of the primary and each replica: host, port, id, and since Redis 7 more of the same.
absl::StatusOr<SlotsReport::Range> ReadRange(const ReplyArray& reply, const ServerAddress& asked, bool& usable) {
  const auto first = reply.Integer(0), last = reply.Integer(1);
  const redisReply* const primary = reply.At(2);
  if (!first || !last || *first < 0 || *last < *first || *last >= static_cast<int64_t>(kSlots) || primary == nullptr) {
    return UnknownShape();
  }
  const ReplyArray node(*primary);
  const auto port = node.Integer(1);
  if (node.At(0) == nullptr || !port || *port < 0 || *port > 65535) return UnknownShape();
  const std::string_view host = Text(*node.At(0));  // null, too, is empty
  // "?": the node does not know itself what the address is, and without a slot's port it has none for us.
  usable = host != "?" && *port != 0;
  SlotsReport::Range range;
  range.first = static_cast<Slot>(*first);
  range.last = static_cast<Slot>(*last);
  range.primary.host = host.empty() ? asked.host : std::string(host);
  range.primary.port = static_cast<int>(*port);
  range.id = std::string(node.String(2).value_or(""));
  range.replicas = static_cast<int>(reply.size()) - 3;
  return range;
}

}  // namespace

absl::StatusOr<SlotsReport> ReadSlots(const redisReply& reply, const ServerAddress& asked) {
  if (IsError(reply)) {
    const std::string_view text = Text(reply);
    const std::string message = Cat("the server refuses CLUSTER SLOTS: ", text);
    if (Contains(text, "cluster support disabled")) {
      return absl::UnimplementedError(
          "it is not a node of a Cluster; for one server write redis://host:port, or rediss:// over TLS");
    }
    if (Contains(text, "unknown command")) {
      return absl::UnimplementedError(
          Cat(message,
              "; if it is a Sentinel, write redis+sentinel://host:port,host:port/name with all sentinels and "
              "the primary's name"));
    }
    if (ClassifyError(text) == ErrorClass::kDenied) {
      return absl::PermissionDeniedError(Cat(message, "; lua/README.md lists the rights that are needed"));
    }
    return absl::UnavailableError(message);
  }
  if (reply.type != REDIS_REPLY_ARRAY) return UnknownShape();
  const ReplyArray rows(reply);
  SlotsReport report;
  for (size_t i = 0; i < rows.size(); ++i) {
    bool usable = false;
    auto range = ReadRange(ReplyArray(*rows.At(i)), asked, usable);
    if (!range.ok()) return range.status();
    if (usable) report.ranges.push_back(*std::move(range));
  }
  return report;
}

}  // namespace distlock::store
