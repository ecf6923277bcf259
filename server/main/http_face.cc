// SPDX-License-Identifier: Apache-2.0
#include "main/http_face.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/log.h"

namespace distlock {

absl::StatusOr<std::unique_ptr<web::Api>> StartHttpFace(const ops::Options& options, rpc::Server& server) {
  if (options.http_api.empty()) return nullptr;
  auto face = web::Api::Start({.address = options.http_api,
                               .max_connections = static_cast<unsigned>(options.http_api_connections),
                               .hosts = options.http_host,
                               .pass = server.OpenInside()});
  if (!face.ok()) {
    const std::string why(face.status().message());
    return absl::FailedPreconditionError(absl::StrCat("--http-api: ", why));
  }
  ops::Info("serving HTTP", {{"http_api", (*face)->address()}});
  return face;
}

}  // namespace distlock
