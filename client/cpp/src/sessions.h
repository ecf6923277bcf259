// SPDX-License-Identifier: Apache-2.0
//
// The sessions of a lock table. There are two links, each with a stream or none. New acquires go through the present
// link. When its broker drains and another broker is known, the other link becomes the present one; the former keeps
// its stream until all that is held through it has moved. Pure; guarded by the mutex of the Engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "link.h"

namespace distlock::internal {

std::string RandomId();

struct TableOptions {
  std::string address;  // for messages
  size_t brokers = 1;   // how many addresses these are
  std::string label;
  int64_t unreachable_timeout_ns = 0;  // 0: by the wait, as ClientOptions says
  int64_t connect_timeout_ns = 0;
  bool reissue_waits = true;
  std::function<void(Duration)> on_draining;          // the broker goes down then, and not all can follow; may be null
  std::function<std::string()> random_id = RandomId;  // of 32 hexadecimal digits
  std::string request_prefix = RandomId();            // of the request_ids of this table's acquires
};

struct Sessions {
  static constexpr int kLinks = 2;

  Link& at(int link) { return links[static_cast<size_t>(link)]; }
  Link& current() { return at(present); }
  Link& other() { return at(1 - present); }
  bool IsCurrent(const Link* link) const { return link == &links[static_cast<size_t>(present)]; }
  // The first of so many ids in a row.
  int64_t TakeIds(size_t count = 1) {
    next_id += static_cast<int64_t>(count);
    return next_id - static_cast<int64_t>(count);
  }

  std::array<Link, kLinks> links;
  int present = 0;
  int64_t next_id = 1;
  bool closed = false;  // the program is done: no session is opened any more
};

}  // namespace distlock::internal
