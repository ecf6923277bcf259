// SPDX-License-Identifier: Apache-2.0
//
// Links the client by pkg-config, without its test broker: a lock that nobody can give.
#include <distlock/client.h>

int main() {
  distlock::ClientOptions options{.address = "unix:///nobody/listens/here.sock"};
  options.unreachable_timeout = std::chrono::milliseconds(1);
  distlock::Client client(options);
  const distlock::Result<distlock::Guard> guard = client.MakeMutex("k").TryLock();
  return !guard.ok() && guard.refusal().reason == distlock::RefusalReason::kUnreachable ? 0 : 1;
}
