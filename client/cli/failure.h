// SPDX-License-Identifier: Apache-2.0
//
// Why a command failed: one struct for the library's refusals and for wrong values on the command line. Decides the
// exit code and the message. Pure, any thread.
#pragma once

#include <distlock/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "duration.h"
#include "exit_code.h"

namespace distlock::cli {

struct Failure {
  std::string reason;   // the name of a RefusalReason; UNAVAILABLE when no broker answered
  std::string message;  // for people, from the broker or from distlockctl
  std::string holder;   // the owner label of the lock's holder
  std::optional<Millis> retry_after;
  std::vector<std::pair<std::string, std::string>> fields;  // each bad field and its problem
  std::string lost_reason;                                  // a LostReason without its prefix, when a lock was lost
  int exit_code = kExitInternal;
  bool is_plain = false;  // the message says all: as text it stands without the reason
};

Failure FailureFrom(const Refusal& refusal);

Failure UsageFailure(std::string message);

// Trouble of this process or its machine, such as CANNOT_RUN.
Failure OwnFailure(std::string reason, std::string message, int exit_code);

Failure CannotStart(int error);  // fork or pipe failed with this errno

// kExitInternal for a reason that this version does not know.
int ExitCodeOf(RefusalReason reason);

// "distlockctl: ..." in one line, or one line per bad field; or, for json, one object {"error":{...}}. With the
// line end.
std::string DescribeText(const Failure& failure);
std::string DescribeJson(const Failure& failure);

}  // namespace distlock::cli
