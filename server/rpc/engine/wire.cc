// SPDX-License-Identifier: Apache-2.0
#include "rpc/engine/wire.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <mutex>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace distlock::rpc {
namespace {

// The field of the parser's last complaint on this thread.
thread_local std::string bad_field;

void OnParserLog(google::protobuf::LogLevel level, const char* file, int line, const std::string& text) {
  constexpr std::string_view kHead = "String field '";
  if (text.compare(0, kHead.size(), kHead) == 0) {
    bad_field = text.substr(kHead.size(), text.find('\'', kHead.size()) - kHead.size());
  } else if (level >= google::protobuf::LOGLEVEL_FATAL) {
    std::fprintf(stderr, "protobuf: %s:%d: %s\n", file, line, text.c_str());
  }
}

}  // namespace

void TakeOverParserLog() {
  static std::once_flag once;
  std::call_once(once, [] { google::protobuf::SetLogHandler(OnParserLog); });
}

std::optional<std::string> InOnePiece(const grpc::ByteBuffer& bytes, grpc::Slice* slice) {
  if (bytes.Valid() && bytes.Length() > 0 && !bytes.TrySingleSlice(slice).ok() && !bytes.DumpToSingleSlice(slice).ok())
    return "the message could not be decompressed";
  return std::nullopt;
}

std::optional<std::string> Parse(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  grpc::Slice slice;
  if (auto problem = InOnePiece(bytes, &slice)) return problem;
  return Parse(std::string_view(reinterpret_cast<const char*>(slice.begin()), slice.size()), message);
}

std::optional<std::string> Parse(std::string_view bytes, google::protobuf::MessageLite* message) {
  bad_field.clear();
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  if (!bad_field.empty()) return absl::StrCat("field ", bad_field, " holds bytes that are not UTF-8");
  return absl::StrCat("the bytes are not a ", message->GetTypeName(), " message");
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace distlock::rpc
