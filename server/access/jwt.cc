// SPDX-License-Identifier: Apache-2.0
#include "access/jwt.h"

extern "C" {
#include <cjose/cjose.h>
}
#include <jansson.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "access/tokens.h"
#include "text/text.h"

namespace distlock::access {
namespace {

using text::Cat;

template <auto Free>
struct Releaser {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
struct JsonRelease {
  void operator()(json_t* object) const { json_decref(object); }
};
using Json = std::unique_ptr<json_t, JsonRelease>;
using Jwk = std::unique_ptr<cjose_jwk_t, Releaser<cjose_jwk_release>>;
using Jws = std::unique_ptr<cjose_jws_t, Releaser<cjose_jws_release>>;

struct Algorithm {
  std::string_view name;
  cjose_jwk_kty_t kind;
};
constexpr Algorithm kAlgorithms[] = {
    {"RS256", CJOSE_JWK_KTY_RSA}, {"PS256", CJOSE_JWK_KTY_RSA}, {"ES256", CJOSE_JWK_KTY_EC}};

absl::Status Bad(const std::string& why) {
  return absl::UnauthenticatedError(Cat("authorization: the JSON web token ", why));
}

// Nothing may follow the value, and no name may come twice.
Json ParseJson(std::string_view text) {
  json_error_t error;
  return Json(json_loadb(text.data(), text.size(), JSON_REJECT_DUPLICATES, &error));
}

std::optional<std::string_view> TextOf(const json_t* object, const char* name) {
  const json_t* const value = json_object_get(object, name);
  if (!json_is_string(value)) return std::nullopt;
  return std::string_view(json_string_value(value), json_string_length(value));
}

constexpr size_t kLeastRsaBits = 2048;
constexpr size_t kMostRsaBits = 16'384;  // OpenSSL verifies with none that is larger

// The bits of a number in base64url; 0: it is none.
size_t BitsOf(std::string_view base64, std::string* bytes) {
  if (!absl::WebSafeBase64Unescape({base64.data(), base64.size()}, bytes)) return 0;
  bytes->erase(0, std::min(bytes->find_first_not_of('\0'), bytes->size()));
  if (bytes->empty()) return 0;
  return 8 * bytes->size() - static_cast<size_t>(std::countl_zero(static_cast<uint8_t>(bytes->front())));
}

// Why anybody could sign for an RSA key, or nobody verify with it; "": it is good.
std::string RsaProblem(const json_t* key) {
  std::string modulus;
  std::string exponent;
  const size_t bits = BitsOf(TextOf(key, "n").value_or(""), &modulus);
  const size_t exponent_bits = BitsOf(TextOf(key, "e").value_or(""), &exponent);
  if (bits < kLeastRsaBits) return Cat("is an RSA key of ", bits, " bits; at least ", kLeastRsaBits, " are needed");
  if (bits > kMostRsaBits) return Cat("is an RSA key of ", bits, " bits; at most ", kMostRsaBits, " can be used");
  // With 1 every text is its own signature; with more than 64 bits OpenSSL verifies nothing.
  if (exponent_bits < 2 || exponent_bits > 64 || exponent.back() % 2 == 0) {
    return "is an RSA key whose exponent (e) is no odd number from 3 on; write AQAB";
  }
  return "";
}

// NumericDate: seconds, possibly with a fraction.
std::optional<int64_t> SecondsOf(const json_t* object, const char* name) {
  constexpr double kMost = 1e15;
  const json_t* const value = json_object_get(object, name);
  if (!json_is_number(value)) return std::nullopt;
  const double seconds = json_number_value(value);
  if (!(std::fabs(seconds) < kMost)) return std::nullopt;
  return static_cast<int64_t>(std::floor(seconds));
}

bool Names(const json_t* audience, std::string_view wanted) {
  const auto is_wanted = [wanted](const json_t* one) {
    return json_is_string(one) && std::string_view(json_string_value(one), json_string_length(one)) == wanted;
  };
  if (!json_is_array(audience)) return is_wanted(audience);
  for (size_t i = 0; i < json_array_size(audience); ++i) {
    if (is_wanted(json_array_get(audience, i))) return true;
  }
  return false;
}

}  // namespace

struct JwtKeys::Keys {
  struct Key {
    std::string id;
    Jwk key;
    Digest digest{};  // of the whole key
  };
  std::vector<Key> all;

  const Key* Find(std::string_view id, cjose_jwk_kty_t kind) const {
    for (const Key& one : all) {
      cjose_err error;
      if (one.id == id && cjose_jwk_get_kty(one.key.get(), &error) == kind) return &one;
    }
    return nullptr;
  }
};

JwtKeys::JwtKeys(std::unique_ptr<Keys> keys, std::string issuer, std::string audience)
    : keys_(std::move(keys)), issuer_(std::move(issuer)), audience_(std::move(audience)) {}

JwtKeys::~JwtKeys() = default;

absl::StatusOr<std::shared_ptr<const JwtKeys>> JwtKeys::Parse(std::string_view jwks, std::string_view file,
                                                              std::string issuer, std::string audience) {
  const auto bad = [file](std::string_view why) { return absl::InvalidArgumentError(Cat(file, ": ", why)); };
  if (jwks.size() > kMostJwksBytes) return bad(Cat("has more than ", kMostJwksBytes, " bytes"));
  const Json root = ParseJson(jwks);
  const json_t* const list = root == nullptr ? nullptr : json_object_get(root.get(), "keys");
  if (!json_is_array(list)) return bad("is no JSON web key set: a JSON object with a list named keys");
  auto keys = std::make_unique<Keys>();
  for (size_t i = 0; i < json_array_size(list); ++i) {
    const json_t* const one = json_array_get(list, i);
    const auto kind = TextOf(one, "kty");
    const auto use = TextOf(one, "use");
    // Keys for other purposes may stand beside ours, and curves of other algorithms than ES256.
    if ((kind != "RSA" && kind != "EC") || (use && use != "sig")) continue;
    if (const auto curve = TextOf(one, "crv"); kind == "EC" && curve && curve != "P-256") continue;
    const auto id = TextOf(one, "kid");
    if (!id || id->empty()) return bad(Cat("keys[", i, "] has no kid; tokens name their key by it"));
    if (json_object_get(one, "d") != nullptr)
      return bad(Cat("keys[", i, "] holds a private key; publish the public one"));
    char* const text = json_dumps(one, JSON_COMPACT | JSON_SORT_KEYS);
    cjose_err error;
    const std::string_view whole(text == nullptr ? "" : text);
    const Digest digest = Sha256(whole);
    Jwk key(text == nullptr ? nullptr : cjose_jwk_import(text, whole.size(), &error));
    std::free(text);
    if (key == nullptr) return bad(Cat("keys[", i, "] cannot be read"));
    if (const std::string problem = kind == "RSA" ? RsaProblem(one) : ""; !problem.empty()) {
      return bad(Cat("keys[", i, "] ", problem));
    }
    keys->all.push_back({std::string(*id), std::move(key), digest});
  }
  if (keys->all.empty()) return bad("has no RSA key, and no EC key of P-256, for signatures; it would verify no token");
  return std::shared_ptr<const JwtKeys>(new JwtKeys(std::move(keys), std::move(issuer), std::move(audience)));
}

absl::StatusOr<JwtClaims> JwtKeys::Verify(std::string_view token, int64_t now_s) const {
  if (token.size() > kMostJwtBytes) return Bad(Cat("is longer than ", kMostJwtBytes, " bytes"));
  const std::vector<std::string_view> parts = text::Split(token, ".");
  std::string raw_header;
  const bool decoded =
      parts.size() == 3 && absl::WebSafeBase64Unescape({parts[0].data(), parts[0].size()}, &raw_header);
  const Json header = decoded ? ParseJson(raw_header) : nullptr;
  if (!json_is_object(header.get())) return Bad("is not of the form header.claims.signature");
  const auto algorithm = TextOf(header.get(), "alg");
  const Algorithm* known = nullptr;
  for (const Algorithm& one : kAlgorithms) {
    if (one.name == algorithm) known = &one;
  }
  if (known == nullptr) return Bad("is signed by another algorithm than RS256, ES256 or PS256");
  if (json_object_get(header.get(), "crit") != nullptr) return Bad("has critical extensions, which are not supported");
  const auto id = TextOf(header.get(), "kid");
  const Keys::Key* const key = id ? keys_->Find(*id, known->kind) : nullptr;
  if (key == nullptr) return Bad("names no key (kid) of --jwt-keys; is the key set up to date?");
  cjose_err error;
  const Jws jws(cjose_jws_import(token.data(), token.size(), &error));
  if (jws == nullptr || !cjose_jws_verify(jws.get(), key->key.get(), &error)) return Bad("has a wrong signature");
  uint8_t* payload = nullptr;
  size_t size = 0;
  if (!cjose_jws_get_plaintext(jws.get(), &payload, &size, &error)) return Bad("has no claims");
  auto claims = CheckClaims({reinterpret_cast<const char*>(payload), size}, issuer_, audience_, now_s);
  if (claims.ok()) claims->key = key->digest;
  return claims;
}

bool JwtKeys::Has(const Digest& key) const {
  return std::any_of(keys_->all.begin(), keys_->all.end(), [&](const Keys::Key& one) { return one.digest == key; });
}

absl::StatusOr<JwtClaims> CheckClaims(std::string_view payload, std::string_view issuer, std::string_view audience,
                                      int64_t now_s) {
  const Json claims = ParseJson(payload);
  if (!json_is_object(claims.get())) return Bad("has no claims that are a JSON object");
  if (TextOf(claims.get(), "iss") != issuer) return Bad("comes from another issuer (iss) than --jwt-issuer");
  if (!Names(json_object_get(claims.get(), "aud"), audience)) return Bad("is not meant (aud) for --jwt-audience");
  const auto expires = SecondsOf(claims.get(), "exp");
  if (!expires) return Bad("has no time at which it expires (exp)");
  if (now_s >= *expires + kJwtLeewayS) return Bad("has expired; get a new one");
  const json_t* const not_before = json_object_get(claims.get(), "nbf");
  if (not_before != nullptr) {
    const auto begins = SecondsOf(claims.get(), "nbf");
    if (!begins || now_s < *begins - kJwtLeewayS) return Bad("does not count yet (nbf); are the clocks right?");
  }
  const auto subject = TextOf(claims.get(), "sub");
  if (!subject || subject->empty()) return Bad("names no subject (sub)");
  return JwtClaims{.subject = std::string(*subject), .expires_s = *expires, .key = {}};
}

std::optional<JwtClaims> JwtCache::Find(const Digest& token, int64_t now_s) const {
  const auto found = known_.find(token);
  if (found == known_.end() || now_s >= found->second.expires_s + kJwtLeewayS) return std::nullopt;
  return found->second;
}

void JwtCache::Add(const Digest& token, const JwtClaims& claims, int64_t now_s) {
  if (known_.size() >= kMost) {
    absl::erase_if(known_, [now_s](const auto& one) { return now_s >= one.second.expires_s + kJwtLeewayS; });
  }
  if (known_.size() >= kMost) known_.clear();
  known_[token] = claims;
}

}  // namespace distlock::access
