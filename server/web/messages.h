// SPDX-License-Identifier: Apache-2.0
//
// Requests and answers of the contract as JSON and as the fields of a URL. Pure; any thread.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "web/routes.h"

namespace distlock::web {

// nullptr: the program has no such call.
const google::protobuf::MethodDescriptor* MethodOf(const Route& route);
std::unique_ptr<google::protobuf::Message> NewMessage(const google::protobuf::Descriptor* type);

// Both return what is wrong, in words for the caller; nullopt: nothing. A name may be the JSON name of a field or the
// one of the .proto.
std::optional<std::string> ReadJson(const std::string& json, google::protobuf::Message* into);
std::optional<std::string> ReadFields(const Fields& fields, google::protobuf::Message* into);

enum class Fill { kAll, kSet };  // whether fields without a value are written, too, except unset messages

// On one line.
std::string ToJson(const google::protobuf::Message& message, Fill fill = Fill::kAll);
// A JSON string.
std::string Quoted(const std::string& text);
// Text of a request for a message: on one line, UTF-8, not long. Quotes stay: whoever writes the JSON escapes them.
std::string Shown(std::string_view text);

}  // namespace distlock::web
