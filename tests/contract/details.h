// SPDX-License-Identifier: Apache-2.0
//
// Reads the details of an error of the contract, for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace distlock::contract {

struct Details {
  explicit Details(const google::rpc::Status& error);
  int code = 0;
  std::string message;
  std::string reason;
  std::map<std::string, std::string> facts;
  google::rpc::RetryInfo retry;
  google::rpc::BadRequest bad;
  google::rpc::ResourceInfo resource;
  std::vector<std::string> fields;  // of `bad`
};

}  // namespace distlock::contract
