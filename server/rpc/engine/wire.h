// SPDX-License-Identifier: Apache-2.0
//
// Converts bytes to messages and back. All methods are served raw, because gRPC itself answers a request that it cannot
// parse with an empty UNIMPLEMENTED, and treats such a message on a stream as a half-close. Here it becomes an error
// that says what is wrong. Any thread.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace distlock::rpc {

// Parses `bytes` into `message`. Returns the problem, in words for the caller; nullopt: none.
std::optional<std::string> Parse(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);
std::optional<std::string> Parse(std::string_view bytes, google::protobuf::MessageLite* message);

// The bytes in one piece; nullopt: done, else what is wrong.
std::optional<std::string> InOnePiece(const grpc::ByteBuffer& bytes, grpc::Slice* slice);

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Memory for one short-lived message. Usually the message fits into this object, on the stack, so that its parts need
// no calls of the allocator.
class Scratch {
 public:
  Scratch() : arena_(block_, sizeof(block_)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Owned by the Scratch.
  template <typename Message>
  Message* Make() {
    return google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

 private:
  alignas(std::max_align_t) char block_[12 << 10];
  google::protobuf::Arena arena_;
};

// Protobuf reports strings that are not UTF-8 only to its process-wide log. This function takes over that log, so that
// Parse can name the field and no caller can fill the daemon's stderr. Call it once per process, before serving.
void TakeOverParserLog();

}  // namespace distlock::rpc
