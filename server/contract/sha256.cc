// SPDX-License-Identifier: Apache-2.0
#include "contract/sha256.h"

#include <openssl/evp.h>

#include <memory>

#include "core/check.h"

namespace distlock::contract {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

std::array<uint8_t, 32> Sha256(std::string_view bytes) {
  static const EVP_MD* const kAlgorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  std::array<uint8_t, 32> digest;
  unsigned size = 0;
  const bool done = EVP_DigestInit_ex(context.get(), kAlgorithm, nullptr) == 1 &&
                    EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1 &&
                    EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  DISTLOCK_CHECK(done && size == digest.size());
  return digest;
}

}  // namespace distlock::contract
