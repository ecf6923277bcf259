// SPDX-License-Identifier: Apache-2.0
//
// Keys and signed JSON web tokens for tests.
#pragma once

extern "C" {
#include <cjose/cjose.h>
}

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"

namespace distlock::access {

struct SigningKey {
  enum class Type { kRsa, kEc };
  explicit SigningKey(Type type, const std::string& id) {
    cjose_err error;
    const uint8_t exponent[] = {1, 0, 1};
    key = type == Type::kRsa ? cjose_jwk_create_RSA_random(2048, exponent, sizeof(exponent), &error)
                             : cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_256, &error);
    if (key == nullptr || !cjose_jwk_set_kid(key, id.data(), id.size(), &error)) std::abort();
  }
  ~SigningKey() { cjose_jwk_release(key); }
  SigningKey(const SigningKey&) = delete;
  SigningKey& operator=(const SigningKey&) = delete;

  std::string Json(bool with_private = false) const {
    cjose_err error;
    char* const text = cjose_jwk_to_json(key, with_private, &error);
    std::string json(text);
    std::free(text);
    return json;
  }
  std::string Set() const { return "{\"keys\":[" + Json() + "]}"; }

  // `kid`: as the token names its key; "": not at all.
  std::string Sign(const std::string& claims, const char* algorithm, const std::string& kid) const {
    cjose_err error;
    cjose_header_t* const header = cjose_header_new(&error);
    cjose_header_set(header, CJOSE_HDR_ALG, algorithm, &error);
    if (!kid.empty()) cjose_header_set(header, CJOSE_HDR_KID, kid.c_str(), &error);
    cjose_jws_t* const jws =
        cjose_jws_sign(key, header, reinterpret_cast<const uint8_t*>(claims.data()), claims.size(), &error);
    const char* text = nullptr;
    if (jws == nullptr || !cjose_jws_export(jws, &text, &error)) std::abort();
    std::string token(text);
    cjose_jws_release(jws);
    cjose_header_release(header);
    return token;
  }

  cjose_jwk_t* key = nullptr;
};

// With a signature that nobody made.
inline std::string Unsigned(const std::string& header, const std::string& claims, const std::string& signature = "AA") {
  return absl::WebSafeBase64Escape(header) + "." + absl::WebSafeBase64Escape(claims) + "." + signature;
}

}  // namespace distlock::access
