// SPDX-License-Identifier: Apache-2.0
#include "web/guard.h"

#include <string_view>

#include "http/host.h"
#include "text/text.h"
#include "web/answers.h"
#include "web/messages.h"

namespace distlock::web {
namespace {

using text::Cat;

bool IsElsewhere(std::string_view origin, std::string_view host) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos || http::LowerText(origin.substr(scheme + 3)) != http::LowerText(host);
}

bool IsJson(std::string_view type) {
  std::string_view media = type.substr(0, type.find(';'));
  while (!media.empty() && media.back() == ' ') media.remove_suffix(1);
  return http::LowerText(media) == "application/json";
}

}  // namespace

std::optional<http::Reply> RefusedAtOnce(const http::Request& request, const std::vector<std::string>& hosts) {
  const auto named = request.All("host");
  // Balancers probe by HTTP/1.0 without a Host, which no browser leaves out.
  const bool probes = named.empty() && request.path == "/health" && request.method != "POST";
  if (!probes && (named.size() != 1 || !http::IsHostOf(named.front(), hosts))) {
    return HttpError(421, Cat("the Host '", Shown(request.Header("host")),
                              "' is none of this broker's: use an IP address or localhost, or name it with "
                              "--http-host"));
  }
  for (const std::string_view origin : request.All("origin")) {
    if (!probes && !IsElsewhere(origin, named.front())) continue;
    return HttpError(403, Cat("a page of '", Shown(origin), "' may not use this broker"));
  }
  for (const std::string_view site : request.All("sec-fetch-site")) {
    if (site == "none" || site == "same-origin") continue;
    return HttpError(403, "a page of another site may not use this broker");
  }
  for (const std::string_view encoding : request.All("content-encoding")) {
    if (encoding.empty() || http::LowerText(encoding) == "identity") continue;
    http::Reply reply = HttpError(
        415, Cat("the body is encoded by '", Shown(encoding), "'; send it as it is, without a Content-Encoding"));
    reply.headers.emplace_back("Accept-Encoding", "identity");
    return reply;
  }
  if (request.method == "POST" && !IsJson(request.Header("content-type"))) {
    return HttpError(415,
                     Cat("the Content-Type is '", Shown(request.Header("content-type")), "'; send application/json"));
  }
  return std::nullopt;
}

}  // namespace distlock::web
