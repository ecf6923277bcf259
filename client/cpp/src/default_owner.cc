// SPDX-License-Identifier: Apache-2.0
#include "default_owner.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "distlock/wire/utf8.h"

namespace distlock::internal {
namespace {

constexpr size_t kMostBytes = 256;

std::string UserName() {
  std::vector<char> buffer(4096);
  struct passwd entry;
  struct passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return absl::StrCat("uid", ::geteuid());
}

std::string HostName() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  return host;
}

}  // namespace

std::string DefaultOwner() {
  static const auto* const user_at_host = new std::string(absl::StrCat(UserName(), "@", HostName()));
  std::string owner = absl::StrCat(*user_at_host, ":", ::getpid());  // a child of fork is another process
  return owner.size() <= kMostBytes && wire::IsUtf8(owner) ? owner : absl::StrCat("pid ", ::getpid());
}

}  // namespace distlock::internal
