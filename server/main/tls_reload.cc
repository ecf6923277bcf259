// SPDX-License-Identifier: Apache-2.0
#include "main/tls_reload.h"

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "main/tls_files.h"
#include "ops/log.h"

namespace distlock {
namespace {

constexpr mode_t kOpenToOthers = 0007;

void WarnOfKey(const std::string& path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0 || (facts.st_mode & kOpenToOthers) == 0) return;
  ops::Warn("option", {{"warning", absl::StrCat("--tls-key: '", path, "' is open to everybody; chmod 0640 it")}});
}

void Show(const TlsFiles& files, bool has_client_ca, Metrics& metrics) {
  metrics.tls_not_after[TlsCertificate::kServer].Set(static_cast<double>(absl::ToUnixSeconds(files.cert_not_after)));
  if (has_client_ca) {
    metrics.tls_not_after[TlsCertificate::kClientCa].Set(
        static_cast<double>(absl::ToUnixSeconds(files.client_ca_not_after)));
  }
  ops::Info("TLS files read",
            {{"not_after", absl::FormatTime(absl::RFC3339_sec, files.cert_not_after, absl::UTCTimeZone())}});
}

}  // namespace

void AddTlsUnit(const ops::Options& options, rpc::TlsShelf& shelf, Metrics& metrics, Reloader& reloader) {
  if (options.tls_cert.empty()) return;
  const TlsPaths paths{options.tls_cert, options.tls_key, options.tls_client_ca};
  std::vector<std::string> files = {paths.cert, paths.key};
  if (!paths.client_ca.empty()) files.push_back(paths.client_ca);
  reloader.Add({.part = ReloadPart::kTls, .name = "tls", .files = std::move(files), .load = [paths, &shelf, &metrics] {
                  auto loaded = LoadTls(paths, absl::Now());
                  if (!loaded.ok()) return loaded.status();
                  WarnOfKey(paths.key);
                  Show(*loaded, !paths.client_ca.empty(), metrics);
                  shelf.Put(std::move(loaded->material));
                  return absl::OkStatus();
                }});
}

}  // namespace distlock
