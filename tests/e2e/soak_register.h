// SPDX-License-Identifier: Apache-2.0
//
// The fenced store of a soak, and its client. Names have no spaces.
#pragma once

#include <cstdint>
#include <string>

namespace distlock::soak {

// Serves at the unix socket `path` until the process is killed; each decision is a record of the file `history`.
int RunRegister(const std::string& path, const std::string& history);

// Thread-safe. Ends the process when the register cannot be reached, because no fault of a soak does that.
class RegisterClient {
 public:
  RegisterClient(const std::string& path, std::string actor);
  ~RegisterClient();
  RegisterClient(const RegisterClient&) = delete;
  RegisterClient& operator=(const RegisterClient&) = delete;

  // Does not wait for an answer; the register records its decision.
  void Write(const std::string& lease, const std::string& lock, int64_t token);

 private:
  const std::string actor_;
  int sock_ = -1;
};

}  // namespace distlock::soak
