// SPDX-License-Identifier: Apache-2.0
#include "rpc/grpc_log.h"

#if __has_include(<grpc/support/log.h>)
#include <grpc/support/log.h>
#endif

#include <cstdlib>
#include <utility>

namespace distlock::rpc {
namespace {

// Lives as long as gRPC's threads.
std::function<void(const GrpcLine&)>& Taker() {
  static auto* const taker = new std::function<void(const GrpcLine&)>;
  return *taker;
}

}  // namespace

std::string HandshakeProblem(const std::string& text) {
  constexpr char kHead[] = "Handshake failed with ";
  if (text.rfind(kHead, 0) != 0) return "";
  // "... SSL_ERROR_SSL: error:0A0000C7:SSL routines::peer did not return a certificate."
  const size_t colon = text.rfind(':');
  std::string why = text.substr(colon == std::string::npos ? sizeof(kHead) - 1 : colon + 1);
  while (!why.empty() && (why.back() == '.' || why.back() == ' ')) why.pop_back();
  return why.substr(why.find_first_not_of(' ') == std::string::npos ? 0 : why.find_first_not_of(' '));
}

void TakeOverGrpcLog([[maybe_unused]] std::function<void(const GrpcLine&)> take) {
#if __has_include(<grpc/support/log.h>)
  const char* const wanted = std::getenv("GRPC_VERBOSITY");
  if (wanted != nullptr && *wanted != '\0') return;
  Taker() = std::move(take);
  gpr_set_log_function([](gpr_log_func_args* line) {
    Taker()({.is_error = line->severity == GPR_LOG_SEVERITY_ERROR, .text = line->message});
  });
#endif
}

}  // namespace distlock::rpc
