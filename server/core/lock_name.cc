// SPDX-License-Identifier: Apache-2.0
#include "core/lock_name.h"

namespace distlock::core {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

bool MustEscape(unsigned char c, bool in_namespace) {
  return c < 0x20 || c == 0x7f || c == '%' || c == '{' || c == '}' || (in_namespace && c == '/');
}

void AppendEscaped(std::string_view in, bool in_namespace, std::string& out) {
  for (const char ch : in) {
    const auto c = static_cast<unsigned char>(ch);
    if (MustEscape(c, in_namespace)) {
      out += '%';
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += ch;
    }
  }
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Unescape(std::string_view in, bool in_namespace) {
  std::string out;
  out.reserve(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const auto c = static_cast<unsigned char>(in[i]);
    if (c != '%') {
      if (MustEscape(c, in_namespace)) return std::nullopt;
      out += in[i];
      continue;
    }
    if (i + 2 >= in.size()) return std::nullopt;
    const int high = HexValue(in[i + 1]);
    const int low = HexValue(in[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    const auto byte = static_cast<unsigned char>(high * 16 + low);
    if (!MustEscape(byte, in_namespace)) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

}  // namespace

LockName LockName::Encode(std::string_view ns, std::string_view key) {
  std::string escaped;
  escaped.reserve(ns.size() + key.size() + 1);
  AppendEscaped(ns, true, escaped);
  escaped += '/';
  AppendEscaped(key, false, escaped);
  return LockName(std::move(escaped));
}

std::optional<LockName> LockName::FromEscaped(std::string_view escaped) {
  const size_t slash = escaped.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == escaped.size()) return std::nullopt;
  if (!Unescape(escaped.substr(0, slash), true) || !Unescape(escaped.substr(slash + 1), false)) return std::nullopt;
  return LockName(std::string(escaped));
}

std::pair<std::string, std::string> LockName::Decode() const {
  const std::string_view all = escaped_;
  const size_t slash = all.find('/');
  if (all.find('%') == std::string_view::npos)
    return {std::string(all.substr(0, slash)), std::string(all.substr(slash + 1))};
  return {Unescape(all.substr(0, slash), true).value_or(""), Unescape(all.substr(slash + 1), false).value_or("")};
}

std::string EscapeKey(std::string_view key) {
  std::string out;
  AppendEscaped(key, false, out);
  return out;
}

std::string EscapeNamespace(std::string_view ns) {
  std::string out;
  AppendEscaped(ns, true, out);
  return out;
}

}  // namespace distlock::core
