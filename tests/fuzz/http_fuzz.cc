// SPDX-License-Identifier: Apache-2.0
//
// Requests to the HTTP face: method, path, query, headers and body. What is found is a call with decoded fields; what
// is refused says why on one line; a message that was read is written and read again.
#include <algorithm>
#include <array>
#include <string>

#include "bytes.h"
#include "core/check.h"
#include "distlock/v1/lock_service.pb.h"
#include "web/guard.h"
#include "web/messages.h"
#include "web/routes.h"

namespace {

using distlock::http::Request;
using distlock::web::Fields;

constexpr std::array<const char*, 5> kMethods{"GET", "HEAD", "POST", "DELETE", "get"};
constexpr std::array<const char*, 6> kHeaders{"host", "origin", "sec-fetch-site", "content-type", "authorization", "x"};

bool IsOneLine(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

std::string Encoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

// One of the routes with an encoded text for each name, or whatever the input says.
std::string PathOf(distlock::fuzz::Bytes& bytes, Fields* meant) {
  const size_t choice = bytes.Below(std::size(distlock::web::kRoutes) + 2);
  if (choice >= std::size(distlock::web::kRoutes)) return std::string(bytes.Text());
  std::string path(distlock::web::kRoutes[choice].path);
  for (size_t open = path.find('{'); open != std::string::npos; open = path.find('{')) {
    const size_t close = path.find('}', open);
    const std::string text(bytes.Text());
    if (text.empty()) return path;
    meant->emplace_back(path.substr(open + 1, close - open - 1), text);
    path.replace(open, close - open + 1, Encoded(text));
  }
  return path;
}

void CheckFound(const Request& request, const Fields& meant) {
  const auto found = distlock::web::FindRoute(request);
  if (const auto* none = std::get_if<distlock::web::NoRoute>(&found)) {
    DISTLOCK_CHECK(none->status == 400 || none->status == 404 || none->status == 405);
    DISTLOCK_CHECK(!none->problem.empty() && IsOneLine(none->problem) && none->problem.size() < 400);
    return;
  }
  const auto& matched = std::get<distlock::web::Matched>(found);
  DISTLOCK_CHECK(matched.route != nullptr && matched.fields.size() >= meant.size());
  DISTLOCK_CHECK(std::equal(meant.begin(), meant.end(), matched.fields.begin()));
  const auto* method = distlock::web::MethodOf(*matched.route);
  if (method == nullptr) return;  // its service is not linked here
  const auto message = distlock::web::NewMessage(method->input_type());
  if (const auto problem = distlock::web::ReadFields(matched.fields, message.get())) {
    DISTLOCK_CHECK(IsOneLine(*problem));
  }
}

void CheckJson(const std::string& json) {
  distlock::v1::AcquireRequest read;
  if (const auto problem = distlock::web::ReadJson(json, &read)) {
    DISTLOCK_CHECK(IsOneLine(*problem));
    return;
  }
  distlock::v1::AcquireRequest again;
  const std::string written = distlock::web::ToJson(read);
  DISTLOCK_CHECK(IsOneLine(written));
  DISTLOCK_CHECK(!distlock::web::ReadJson(written, &again).has_value());
  DISTLOCK_CHECK(again.locks_size() == read.locks_size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  distlock::fuzz::Bytes bytes(data, size);
  Request request;
  request.method = kMethods[bytes.Below(kMethods.size())];
  Fields meant;
  request.path = PathOf(bytes, &meant);
  request.query = std::string(bytes.Text());
  for (size_t left = bytes.Below(4); left > 0; --left) {
    request.headers.emplace_back(kHeaders[bytes.Below(kHeaders.size())], std::string(bytes.Text()));
  }
  request.body = std::string(bytes.Rest());
  if (const auto refused = distlock::web::RefusedAtOnce(request, {"locks.example"})) {
    DISTLOCK_CHECK(refused->status == 421 || refused->status == 403 || refused->status == 415);
    DISTLOCK_CHECK(refused->body.ends_with('\n') && IsOneLine({refused->body.data(), refused->body.size() - 1}));
  }
  CheckFound(request, meant);
  CheckJson(request.body);
  return 0;
}
