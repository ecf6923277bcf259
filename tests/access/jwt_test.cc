// SPDX-License-Identifier: Apache-2.0
#include "access/jwt.h"

#include <gmock/gmock.h>

#include "access/jwt_sign.h"
#include "access/tokens.h"

namespace distlock::access {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 1'700'000'000;
const char kClaims[] = R"({"iss":"https://issuer","aud":["other","distlock"],"sub":"me","exp":1700000600})";

const SigningKey& Rsa() {
  static const SigningKey key(SigningKey::Type::kRsa, "rsa");
  return key;
}
const SigningKey& Ec() {
  static const SigningKey key(SigningKey::Type::kEc, "ec");
  return key;
}

std::shared_ptr<const JwtKeys> Keys() {
  static const auto keys = JwtKeys::Parse(
      "{\"keys\":[" + Rsa().Json() + "," + Ec().Json() + R"(,{"kty":"oct","k":"AA"},{"kty":"RSA","use":"enc"}]})",
      "jwks", "https://issuer", "distlock");
  return *keys;
}

std::string ErrorOf(const absl::StatusOr<JwtClaims>& claims) {
  return claims.ok() ? "" : std::string(claims.status().message().data(), claims.status().message().size());
}

std::string Verify(const std::string& token, int64_t now_s = kNow) { return ErrorOf(Keys()->Verify(token, now_s)); }

TEST(Jwt, TakesWhatTheKeysHaveSigned) {
  for (const auto& token :
       {Rsa().Sign(kClaims, "RS256", "rsa"), Rsa().Sign(kClaims, "PS256", "rsa"), Ec().Sign(kClaims, "ES256", "ec")}) {
    const auto claims = Keys()->Verify(token, kNow);
    ASSERT_TRUE(claims.ok()) << claims.status();
    EXPECT_EQ(claims->subject, "me");
    EXPECT_EQ(claims->expires_s, 1700000600);
  }
}

TEST(Jwt, RefusesOtherAlgorithmsKeysAndSignatures) {
  const std::string good = Rsa().Sign(kClaims, "RS256", "rsa");
  EXPECT_THAT(Verify(Unsigned(R"({"alg":"none","kid":"rsa"})", kClaims, "")), HasSubstr("another algorithm"));
  EXPECT_THAT(Verify(Unsigned(R"({"alg":"none"})", kClaims)), HasSubstr("another algorithm"));
  EXPECT_THAT(Verify(Unsigned(R"({"alg":"HS256","kid":"rsa"})", kClaims)), HasSubstr("another algorithm"));
  EXPECT_THAT(Verify(Unsigned(R"({"kid":"rsa"})", kClaims)), HasSubstr("another algorithm"));
  EXPECT_THAT(Verify(Rsa().Sign(kClaims, "RS384", "rsa")), HasSubstr("another algorithm"));
  EXPECT_THAT(Verify(Unsigned(R"({"alg":"ES256","kid":"rsa"})", kClaims)), HasSubstr("names no key"));
  EXPECT_THAT(Verify(Rsa().Sign(kClaims, "RS256", "")), HasSubstr("names no key"));
  EXPECT_THAT(Verify(Rsa().Sign(kClaims, "RS256", "gone")), HasSubstr("names no key"));
  const SigningKey stranger(SigningKey::Type::kEc, "ec");
  EXPECT_THAT(Verify(stranger.Sign(kClaims, "ES256", "ec")), HasSubstr("wrong signature"));
  EXPECT_THAT(Verify(Unsigned(R"({"alg":"RS256","kid":"rsa"})", kClaims)), HasSubstr("wrong signature"));
  EXPECT_THAT(Verify(Unsigned(R"({"alg":"RS256","kid":"rsa","crit":["x"]})", kClaims)), HasSubstr("critical"));
  EXPECT_THAT(Verify(Unsigned(R"({"alg":"none","alg":"RS256","kid":"rsa"})", kClaims)), HasSubstr("form"));
  EXPECT_THAT(Verify(good + "x"), Not(""));
  EXPECT_THAT(Verify(good + ".x"), HasSubstr("form"));
  EXPECT_THAT(Verify("a.b"), HasSubstr("form"));
  EXPECT_THAT(Verify("!.b.c"), HasSubstr("form"));
  EXPECT_THAT(Verify(good.substr(0, good.find('.')) + ".!.c"), HasSubstr("wrong signature"));
  EXPECT_THAT(Verify(Unsigned("[]", kClaims)), HasSubstr("form"));
  EXPECT_THAT(Verify(std::string(kMostJwtBytes + 1, 'a')), HasSubstr("longer than 8192"));
  EXPECT_THAT(Verify(good), Not(HasSubstr(good)));
}

TEST(Jwt, ChecksEachClaim) {
  const auto check = [](const std::string& claims, int64_t now_s = kNow) {
    return ErrorOf(CheckClaims(claims, "https://issuer", "distlock", now_s));
  };
  const std::string iss = R"("iss":"https://issuer",)";
  const std::string aud = R"("aud":"distlock",)";
  EXPECT_EQ(check("{" + iss + aud + R"("sub":"me","exp":1700000000.5})"), "");
  EXPECT_THAT(check("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(check("{"), HasSubstr("JSON object"));
  EXPECT_THAT(check("{" + iss + aud + R"("sub":"me","exp":1700000600} x)"), HasSubstr("JSON object"));
  EXPECT_THAT(check("{" + iss + aud + R"("sub":"me","sub":"root","exp":1700000600})"), HasSubstr("JSON object"));
  EXPECT_THAT(check("{" + aud + R"("sub":"me","exp":1700000600})"), HasSubstr("issuer"));
  EXPECT_THAT(check("{\"iss\":\"https://issuer/\"," + aud + R"("sub":"me","exp":1700000600})"), HasSubstr("issuer"));
  EXPECT_THAT(check("{" + iss + R"("sub":"me","exp":1700000600})"), HasSubstr("aud"));
  EXPECT_THAT(check("{" + iss + R"("aud":["x",5],"sub":"me","exp":1700000600})"), HasSubstr("aud"));
  EXPECT_THAT(check("{" + iss + R"("aud":{},"sub":"me","exp":1700000600})"), HasSubstr("aud"));
  EXPECT_THAT(check("{" + iss + aud + R"("sub":"me"})"), HasSubstr("exp"));
  EXPECT_THAT(check("{" + iss + aud + R"("sub":"me","exp":"1700000600"})"), HasSubstr("exp"));
  EXPECT_THAT(check("{" + iss + aud + R"("sub":"me","exp":1e300})"), HasSubstr("exp"));
  const std::string ends = "{" + iss + aud + R"("sub":"me","exp":1700000600})";
  EXPECT_EQ(check(ends, 1700000600 + kJwtLeewayS - 1), "");
  EXPECT_THAT(check(ends, 1700000600 + kJwtLeewayS), HasSubstr("expired"));
  const std::string begins = "{" + iss + aud + R"("sub":"me","exp":1700000600,"nbf":1700000000})";
  EXPECT_EQ(check(begins, 1700000000 - kJwtLeewayS), "");
  EXPECT_THAT(check(begins, 1700000000 - kJwtLeewayS - 1), HasSubstr("nbf"));
  EXPECT_THAT(check("{" + iss + aud + R"("sub":"me","exp":1700000600,"nbf":"x"})"), HasSubstr("nbf"));
  EXPECT_THAT(check("{" + iss + aud + R"("exp":1700000600})"), HasSubstr("subject"));
  EXPECT_THAT(check("{" + iss + aud + R"("sub":"","exp":1700000600})"), HasSubstr("subject"));
}

TEST(Jwt, ReadsKeySets) {
  const auto error = [](const std::string& jwks) {
    const auto keys = JwtKeys::Parse(jwks, "jwks", "i", "a");
    return keys.ok() ? "" : std::string(keys.status().message().data(), keys.status().message().size());
  };
  EXPECT_EQ(error(Rsa().Set()), "");
  for (const char* bad : {"", "[]", "{}", R"({"keys":{}})", R"({"keys":[]} x)"}) {
    EXPECT_THAT(error(bad), HasSubstr("jwks: is no JSON web key set")) << bad;
  }
  EXPECT_THAT(error(R"({"keys":[]})"), HasSubstr("has no RSA key, and no EC key"));
  EXPECT_THAT(error(R"({"keys":[{"kty":"RSA","kid":"a","use":"enc"}]})"), HasSubstr("has no RSA key, and no EC key"));
  EXPECT_THAT(error(R"({"keys":[{"kty":"RSA","kid":"a","use":"sig"}]})"), HasSubstr("keys[0] cannot be read"));
  EXPECT_THAT(error(R"({"keys":[{"kty":"RSA","kid":""}]})"), HasSubstr("keys[0] has no kid"));
  EXPECT_THAT(error(R"({"keys":[{"kty":"RSA"}]})"), HasSubstr("keys[0] has no kid"));
  EXPECT_THAT(error(R"({"keys":[{"kty":"RSA","kid":"a"}]})"), HasSubstr("keys[0] cannot be read"));
  EXPECT_THAT(error("{\"keys\":[" + Ec().Json(true) + "]}"), HasSubstr("private key"));
  EXPECT_THAT(error(std::string(kMostJwksBytes + 1, ' ')), HasSubstr("more than"));
}

std::string ErrorOfSet(const std::string& jwks) {
  const auto keys = JwtKeys::Parse(jwks, "jwks", "i", "a");
  return keys.ok() ? "" : std::string(keys.status().message().data(), keys.status().message().size());
}

std::string RsaSet(const std::string& modulus, const std::string& exponent) {
  return "{\"keys\":[" + Ec().Json() + R"(,{"kty":"RSA","kid":"weak","n":")" + absl::WebSafeBase64Escape(modulus) +
         R"(","e":")" + absl::WebSafeBase64Escape(exponent) + "\"}]}";
}

TEST(Jwt, RefusesKeysThatProveNothing) {
  const std::string e("\x01\x00\x01", 3);
  const auto bits = [](size_t count) {
    std::string modulus(count / 8, '\xff');
    if (count % 8 != 0) modulus.insert(0, 1, static_cast<char>((1 << count % 8) - 1));
    return modulus;
  };
  EXPECT_EQ(ErrorOfSet(RsaSet(bits(2048), e)), "");
  EXPECT_EQ(ErrorOfSet(RsaSet(bits(4096), "\x03")), "");
  EXPECT_THAT(ErrorOfSet(RsaSet("\x01", e)), HasSubstr("jwks: keys[1] is an RSA key of 1 bits; at least 2048"));
  EXPECT_THAT(ErrorOfSet(RsaSet(bits(1024), e)), HasSubstr("keys[1] is an RSA key of 1024 bits"));
  EXPECT_THAT(ErrorOfSet(RsaSet(bits(2047), e)), HasSubstr("keys[1] is an RSA key of 2047 bits"));
  EXPECT_THAT(ErrorOfSet(RsaSet(std::string(300, '\0') + bits(1024), e)), HasSubstr("of 1024 bits"));
  EXPECT_THAT(ErrorOfSet(RsaSet(bits(16'392), e)), HasSubstr("at most 16384"));
  for (const std::string& bad : {std::string("\x01"), std::string("\x04"), std::string(9, '\xff')}) {
    EXPECT_THAT(ErrorOfSet(RsaSet(bits(2048), bad)), HasSubstr("keys[1] is an RSA key whose exponent")) << bad.size();
  }
}

TEST(Jwt, RefusesASetThatWouldVerifyNothing) {
  cjose_err error;
  cjose_jwk_t* const other = cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_384, &error);
  ASSERT_TRUE(cjose_jwk_set_kid(other, "p384", 4, &error));
  char* const text = cjose_jwk_to_json(other, false, &error);
  EXPECT_THAT(ErrorOfSet("{\"keys\":[" + std::string(text) + "]}"), HasSubstr("would verify no token"));
  EXPECT_EQ(ErrorOfSet("{\"keys\":[" + std::string(text) + "," + Ec().Json() + "]}"), "");
  std::free(text);
  cjose_jwk_release(other);
}

TEST(Jwt, AFileOfSecretsGivenByMistakeIsNotShown) {
  for (const char* jwks : {"s3cret", R"({"s3cret":"s3cret"})", R"({"keys":"s3cret"})", R"({"keys":["s3cret"]})",
                           R"({"keys":[{"kty":"RSA","kid":"s3cret","n":"s3cret","e":"s3cret"}]})",
                           R"({"keys":[{"kty":"EC","kid":"s3cret","crv":"s3cret"}]})"}) {
    EXPECT_THAT(ErrorOfSet(jwks), AllOf(HasSubstr("jwks: "), Not(HasSubstr("s3cret")))) << jwks;
  }
}

TEST(JwtCache, ForgetsWhatHasExpired) {
  JwtCache cache;
  const Digest token = Sha256("a");
  EXPECT_EQ(cache.Find(token, 0), std::nullopt);
  cache.Add(token, {.subject = "me", .expires_s = 10}, 0);
  ASSERT_TRUE(cache.Find(token, 10 + kJwtLeewayS - 1)) << "it counts for the leeway longer";
  EXPECT_EQ(cache.Find(token, 10 + kJwtLeewayS - 1)->subject, "me");
  EXPECT_EQ(cache.Find(token, 10 + kJwtLeewayS), std::nullopt);
  for (int i = 0; i < 10'001; ++i) cache.Add(Sha256(std::to_string(i)), {.subject = "x", .expires_s = 100}, 80);
  EXPECT_EQ(cache.Find(Sha256("10000"), 80)->subject, "x");
  cache.Clear();
  EXPECT_EQ(cache.Find(Sha256("10000"), 80), std::nullopt);
}

}  // namespace
}  // namespace distlock::access
