// SPDX-License-Identifier: Apache-2.0
#include "channel.h"

#include <algorithm>
#include <limits>

#include "tls_channel.h"

namespace distlock::internal {
namespace {

constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kMessageBytes = 4 << 20;

int Millis(Duration duration) {
  const int64_t count = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::clamp<int64_t>(count, 0, std::numeric_limits<int>::max()));
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options, const std::string& address) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Millis(options.reconnect_initial));
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Millis(options.connect_timeout));
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Millis(options.reconnect_max));
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // the lock table decides what is sent again
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);          // http_proxy is meant for the web, not for the broker
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetMaxReceiveMessageSize(kMessageBytes);
  args.SetMaxSendMessageSize(kMessageBytes);
  return OpenChannel(address, options.tls, args);
}

}  // namespace distlock::internal
