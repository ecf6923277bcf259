// SPDX-License-Identifier: Apache-2.0
#include "bench/wire_scan.h"

namespace distlock::bench {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// The number of a varint field; 0, as protobuf has it, when it is absent.
int64_t Number(std::string_view message, int field) {
  int64_t value = 0;
  WireCursor cursor(message);
  while (cursor.Next()) {
    if (cursor.field() == field) value = cursor.varint();
  }
  return value;
}

}  // namespace

bool WireCursor::Next() {
  if (at_ == end_ || !ok_) return false;
  const uint64_t tag = Varint();
  field_ = static_cast<int>(tag >> 3);
  varint_ = 0;
  bytes_ = {};
  switch (tag & 7) {
    case kVarint:
      varint_ = static_cast<int64_t>(Varint());
      break;
    case kBytes:
      bytes_ = Take(Varint());
      break;
    case kFixed64:
      Take(8);
      break;
    case kFixed32:
      Take(4);
      break;
    default:
      ok_ = false;
  }
  return ok_;
}

uint64_t WireCursor::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) break;
    const auto byte = static_cast<unsigned char>(*at_++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  ok_ = false;
  return 0;
}

std::string_view WireCursor::Take(uint64_t size) {
  if (size > static_cast<uint64_t>(end_ - at_)) {
    ok_ = false;
    at_ = end_;
    return {};
  }
  const std::string_view taken(at_, size);
  at_ += size;
  return taken;
}

bool ScanEvent(std::string_view bytes, SeenEvent* event) {
  event->bytes = bytes;
  WireCursor cursor(bytes);
  while (cursor.Next()) {
    if (cursor.field() == v1::SessionEvent::kIdFieldNumber) {
      event->id = cursor.varint();
      continue;
    }
    event->kind = static_cast<v1::SessionEvent::EventCase>(cursor.field());
    if (event->kind == v1::SessionEvent::kGranted) {
      event->token = Number(cursor.bytes(), v1::Grant::kFencingTokenFieldNumber);
    } else if (event->kind == v1::SessionEvent::kReleased) {
      event->outcome = Number(cursor.bytes(), v1::LeaseReleased::kOutcomeFieldNumber);
    }
  }
  return cursor.ok();
}

}  // namespace distlock::bench
