// SPDX-License-Identifier: Apache-2.0
//
// Reads the details of an error of the contract, for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "distlock/wire/status_details.pb.h"

namespace distlock::contract {

struct Details {
  explicit Details(const wire::RpcStatus& error);
  int code = 0;
  std::string message;
  std::string reason;
  std::map<std::string, std::string> facts;
  wire::RetryInfo retry;
  wire::BadRequest bad;
  wire::ResourceInfo resource;
  std::vector<std::string> fields;  // of `bad`
};

}  // namespace distlock::contract
