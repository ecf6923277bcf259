// SPDX-License-Identifier: Apache-2.0
#include "contract/page_token.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "contract/sha256.h"

namespace distlock::contract {
namespace {

constexpr size_t kBindingBytes = 9;  // 12 letters of base64

std::string Binding(std::string_view caller, const LockSearch& search) {
  const auto digest = Sha256(
      absl::StrCat(caller.size(), " ", std::string(caller), search.escaped_namespace, "/", search.escaped_prefix));
  return absl::WebSafeBase64Escape(std::string(digest.begin(), digest.begin() + kBindingBytes));
}

}  // namespace

std::string BindPageToken(std::string_view store_token, std::string_view caller, const LockSearch& search) {
  if (store_token.empty()) return "";
  return Binding(caller, search).append(store_token);
}

std::optional<std::string> UnbindPageToken(std::string_view text, std::string_view caller, const LockSearch& search) {
  if (text.empty()) return "";
  const std::string binding = Binding(caller, search);
  if (!text.starts_with(binding) || text.size() == binding.size()) return std::nullopt;
  return std::string(text.substr(binding.size()));
}

}  // namespace distlock::contract
