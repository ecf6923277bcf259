// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/command_rest.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <utility>

#include "rpc/engine/wire.h"

namespace distlock::rpc {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr uint32_t kCommandTag =
    WireFormatLite::MakeTag(v1::SessionRequest::kCommandsFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

}  // namespace

void CommandRest::Set(grpc::Slice message) {
  came_in_ = std::move(message);
  left_ = {reinterpret_cast<const char*>(came_in_.begin()), came_in_.size()};
}

bool CommandRest::Next(v1::SessionCommand* command, std::string* problem) {
  bool found = false;
  bool valid = true;
  while (valid && !found && !left_.empty()) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(left_.data()),
                                              static_cast<int>(left_.size()));
    const uint32_t tag = in.ReadTag();
    uint32_t size = 0;
    found = tag == kCommandTag;
    valid = found ? in.ReadVarint32(&size) : tag != 0 && WireFormatLite::SkipField(&in, tag);
    const auto head = static_cast<size_t>(in.CurrentPosition());
    valid = valid && size <= left_.size() - head;
    if (!valid) break;
    if (found) {
      if (auto wrong = Parse(left_.substr(head, size), command)) *problem = *std::move(wrong);
    }
    left_.remove_prefix(head + size);
  }
  if (!valid) *problem = "the bytes are not a distlock.v1.SessionRequest message";
  if (!problem->empty()) left_ = {};
  if (left_.empty()) Compact();
  return found && problem->empty();
}

void CommandRest::Compact() {
  if (came_in_.size() == 0 && !left_.empty()) return;  // done before
  std::string(left_).swap(copy_);                      // an assignment would keep the memory of what was there
  left_ = copy_;
  came_in_ = grpc::Slice();
}

}  // namespace distlock::rpc
