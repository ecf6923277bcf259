// SPDX-License-Identifier: Apache-2.0
//
// Reads the details of a status with Google's own messages and with ours, in one program that links both.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "distlock/wire/status_details.h"
#include "distlock/wire/times.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace distlock::testing {

// As wire::ReadStatusDetails, but with Google's messages. A detail that they do not know fails the test.
inline wire::StatusDetails ReadWithGoogle(const std::string& serialized) {
  google::rpc::Status status;
  EXPECT_TRUE(status.ParseFromString(serialized));
  wire::StatusDetails details;
  for (const google::protobuf::Any& any : status.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    google::rpc::BadRequest bad;
    google::rpc::ResourceInfo resource;
    if (any.UnpackTo(&info)) {
      EXPECT_EQ(info.domain(), "distlock");
      const auto& facts = info.metadata();
      const auto fact = [&](const char* name) { return facts.contains(name) ? facts.at(name) : ""; };
      details.reason = info.reason();
      details.holder_id = fact("holder_id");
      if (facts.contains("fencing_token")) details.fencing_token = std::stoll(fact("fencing_token"));
      if (facts.contains("queue_length")) details.queue_length = std::stoi(fact("queue_length"));
      details.block_time_left = fact("block_time_left");
    } else if (any.UnpackTo(&retry)) {
      details.retry_delay = wire::FromProto(retry.retry_delay());
    } else if (any.UnpackTo(&resource)) {
      details.owner = resource.owner();
    } else if (any.UnpackTo(&bad)) {
      for (const auto& one : bad.field_violations()) {
        details.field_violations.emplace_back(one.field(), one.description());
      }
    } else {
      ADD_FAILURE() << any.type_url();
    }
  }
  return details;
}

// Returns what both have read.
inline wire::StatusDetails ReadWithBoth(const std::string& serialized) {
  const wire::StatusDetails googles = ReadWithGoogle(serialized);
  const wire::StatusDetails ours = wire::ReadStatusDetails(serialized);
  EXPECT_EQ(ours.reason, googles.reason);
  EXPECT_EQ(ours.holder_id, googles.holder_id);
  EXPECT_EQ(ours.fencing_token, googles.fencing_token);
  EXPECT_EQ(ours.queue_length, googles.queue_length);
  EXPECT_EQ(ours.block_time_left, googles.block_time_left);
  EXPECT_EQ(ours.retry_delay, googles.retry_delay);
  EXPECT_EQ(ours.field_violations, googles.field_violations);
  EXPECT_EQ(ours.owner, googles.owner);
  return ours;
}

}  // namespace distlock::testing
