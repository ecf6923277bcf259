// SPDX-License-Identifier: Apache-2.0
#include "web/messages.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>
#include <jansson.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>

#include "absl/strings/escaping.h"
#include "contract/utf8.h"
#include "text/text.h"

namespace distlock::web {
namespace {

namespace pb = google::protobuf;
using text::Cat;

constexpr size_t kShownBytes = 100;
constexpr size_t kProblemBytes = 300;

const pb::FieldDescriptor* FieldNamed(const pb::Descriptor& type, const std::string& name) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->name() == name || type.field(i)->json_name() == name) return type.field(i);
  }
  return nullptr;
}

template <typename Number>
std::optional<Number> Parsed(const std::string& text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

// False: the text is no value of that field.
bool SetField(const pb::FieldDescriptor* field, const std::string& text, pb::Message* into) {
  const pb::Reflection& values = *into->GetReflection();
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      values.SetString(into, field, text);
      return true;
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      values.SetBool(into, field, text == "true");
      return text == "true" || text == "false";
    case pb::FieldDescriptor::CPPTYPE_INT32:
      if (const auto number = Parsed<int32_t>(text)) {
        values.SetInt32(into, field, *number);
        return true;
      }
      return false;
    case pb::FieldDescriptor::CPPTYPE_INT64:
      if (const auto number = Parsed<int64_t>(text)) {
        values.SetInt64(into, field, *number);
        return true;
      }
      return false;
    default:
      return false;
  }
}

bool IsControl(unsigned char c) { return c < 0x20 || c == 0x7f; }

struct JsonRelease {
  void operator()(json_t* value) const { json_decref(value); }
};

// The field of a message that is given twice: by the same name, which the parser has seen, or by its other name.
std::optional<std::string> Repeated(json_t* value, const pb::Descriptor& type) {
  for (size_t i = 0; i < json_array_size(value); ++i) {
    if (auto found = Repeated(json_array_get(value, i), type)) return found;
  }
  std::set<const pb::FieldDescriptor*> seen;
  const char* name = nullptr;
  json_t* of_name = nullptr;
  json_object_foreach(value, name, of_name) {
    const pb::FieldDescriptor* field = FieldNamed(type, name);
    if (field == nullptr) continue;  // who reads the message says so
    if (!seen.insert(field).second) return Cat(field->name(), " is given twice");
    // The names in a map are the caller's, and its values are no messages in this contract.
    if (field->message_type() == nullptr || field->is_map()) continue;
    if (auto found = Repeated(of_name, *field->message_type())) return found;
  }
  return std::nullopt;
}

// Protobuf also takes names that come twice, names without quotes and text in single quotes. Whoever filters bodies
// before this broker would see another request than it does.
std::optional<std::string> WhyNotStrict(const std::string& json, const pb::Descriptor& type) {
  json_error_t error;
  const std::unique_ptr<json_t, JsonRelease> root(
      json_loadb(json.data(), json.size(), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error));
  if (root == nullptr) return Cat("line ", error.line, ", column ", error.column, ": ", error.text);
  return Repeated(root.get(), type);
}

}  // namespace

const pb::MethodDescriptor* MethodOf(const Route& route) {
  const pb::ServiceDescriptor* service =
      pb::DescriptorPool::generated_pool()->FindServiceByName(std::string(route.service));
  return service == nullptr ? nullptr : service->FindMethodByName(std::string(route.call));
}

std::unique_ptr<pb::Message> NewMessage(const pb::Descriptor* type) {
  return std::unique_ptr<pb::Message>(pb::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

std::optional<std::string> ReadJson(const std::string& json, pb::Message* into) {
  std::string why = WhyNotStrict(json, *into->GetDescriptor()).value_or("");
  if (why.empty()) {
    const auto status = pb::util::JsonStringToMessage(json, into);
    if (status.ok()) return std::nullopt;
    why.assign(status.message().data(), status.message().size());
  }
  std::ranges::replace_if(why, IsControl, ' ');
  return Cat("the body is no ", into->GetDescriptor()->name(),
             " in JSON: ", contract::Cut(contract::CleanText(why), kProblemBytes));
}

std::optional<std::string> ReadFields(const Fields& fields, pb::Message* into) {
  std::set<std::string> seen;
  for (const auto& [name, value] : fields) {
    const std::string shown = Shown(name);
    const pb::FieldDescriptor* field = FieldNamed(*into->GetDescriptor(), name);
    if (field == nullptr || field->is_repeated()) return Cat("there is no parameter '", shown, "'");
    if (!seen.insert(field->name()).second) return Cat("the parameter '", shown, "' is given twice");
    if (contract::CleanText(value) != value) return Cat("the parameter '", shown, "' is no UTF-8");
    if (!SetField(field, value, into)) {
      return Cat("the parameter '", shown, "' cannot be '", Shown(value), "'");
    }
  }
  return std::nullopt;
}

std::string ToJson(const pb::Message& message, Fill fill) {
  pb::util::JsonPrintOptions options;
  options.always_print_primitive_fields = fill == Fill::kAll;
  std::string json;
  const auto status = pb::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : "{}";
}

std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : contract::Cut(contract::CleanText(text), kShownBytes)) {
    shown += IsControl(c) ? absl::CEscape(std::string(1, c)) : std::string(1, c);
  }
  return shown;
}

std::string Quoted(const std::string& text) {
  pb::StringValue value;
  value.set_value(text);
  return ToJson(value);
}

}  // namespace distlock::web
