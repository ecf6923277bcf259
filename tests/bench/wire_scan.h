// SPDX-License-Identifier: Apache-2.0
//
// Reads only the fields of a SessionResponse that the load needs, without building messages. Field numbers come from
// the generated code, so they always match the contract. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/session.h"

namespace distlock::bench {

// A cursor over protobuf's wire format. ok() turns false at the first malformed byte.
class WireCursor {
 public:
  explicit WireCursor(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // The next field; false at the end. Its value is varint() or bytes(), by its type.
  bool Next();
  bool ok() const { return ok_; }
  int field() const { return field_; }
  int64_t varint() const { return varint_; }
  std::string_view bytes() const { return bytes_; }

 private:
  uint64_t Varint();
  std::string_view Take(uint64_t size);

  const char* at_;
  const char* end_;
  bool ok_ = true;
  int field_ = 0;
  int64_t varint_ = 0;
  std::string_view bytes_;
};

// False when the event is malformed.
bool ScanEvent(std::string_view bytes, SeenEvent* event);

template <typename Visit>
bool ScanEvents(std::string_view message, Visit visit) {
  WireCursor cursor(message);
  while (cursor.Next()) {
    SeenEvent event;
    if (cursor.field() != v1::SessionResponse::kEventsFieldNumber) continue;
    if (!ScanEvent(cursor.bytes(), &event)) return false;
    visit(event);
  }
  return cursor.ok();
}

}  // namespace distlock::bench
