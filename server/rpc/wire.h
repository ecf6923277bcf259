// SPDX-License-Identifier: Apache-2.0
//
// Bytes to messages and back. All methods are served raw: gRPC itself answers a request it cannot parse with an empty
// UNIMPLEMENTED, and a message on a stream like a half-close; here it becomes an error that says what was wrong.
// Any thread.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string>

namespace distlock::rpc {

// What is wrong with the bytes, for the caller; nullopt when `message` has been read.
std::optional<std::string> Parse(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Protobuf reports strings that are not UTF-8 to its process-wide log only. This takes that report from the log, so
// that Parse can name the field and no caller can fill the daemon's stderr. Once per process, before serving.
void TakeOverParserLog();

}  // namespace distlock::rpc
