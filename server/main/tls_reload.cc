// SPDX-License-Identifier: Apache-2.0
#include "main/tls_reload.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/log.h"

namespace distlock {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(10);
constexpr absl::Duration kLookAgain = absl::Seconds(1);

}  // namespace

TlsReload::TlsReload(TlsPaths paths, const TlsFiles& files, rpc::TlsShelf& shelf, ops::Metrics& metrics)
    : paths_(std::move(paths)), shelf_(shelf), metrics_(metrics), read_(State()), next_look_(absl::InfinitePast()) {
  Show(files);
}

std::string TlsReload::State() const {
  std::string state;
  for (const std::string* path : {&paths_.cert, &paths_.key, &paths_.client_ca}) {
    struct stat found{};
    if (path->empty()) continue;
    // A link is followed: another target is another file.
    if (stat(path->c_str(), &found) != 0) return "";
    absl::StrAppend(&state, found.st_dev, " ", found.st_ino, " ", found.st_size, " ", found.st_mtim.tv_sec, ".",
                    found.st_mtim.tv_nsec, ";");
  }
  return state;
}

void TlsReload::Show(const TlsFiles& files) {
  metrics_.tls_not_after[ops::TlsCertificate::kServer].Set(
      static_cast<double>(absl::ToUnixSeconds(files.cert_not_after)));
  if (paths_.client_ca.empty()) return;
  metrics_.tls_not_after[ops::TlsCertificate::kClientCa].Set(
      static_cast<double>(absl::ToUnixSeconds(files.client_ca_not_after)));
}

bool TlsReload::Reload(absl::Time now) {
  read_ = State();
  seen_.clear();
  auto files = LoadTls(paths_, now);
  if (!files.ok()) {
    metrics_.reloads[ops::ReloadOutcome::kRefused].Increment();
    ops::Warn("new TLS files refused; the present ones stay in use",
              {{"error", std::string(files.status().message())}});
    return false;
  }
  Show(*files);
  shelf_.Put(std::move(files->material));
  metrics_.reloads[ops::ReloadOutcome::kDone].Increment();
  ops::Info("TLS files read again",
            {{"not_after", absl::FormatTime(absl::RFC3339_sec, files->cert_not_after, absl::UTCTimeZone())}});
  return true;
}

void TlsReload::Look(absl::Time now) {
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  std::string state = State();
  if (state.empty() || state == read_) {
    seen_.clear();
  } else if (state == seen_) {
    Reload(now);
  } else {
    seen_ = std::move(state);
    next_look_ = now + kLookAgain;
  }
}

}  // namespace distlock
