// SPDX-License-Identifier: Apache-2.0
#include "contract/details.h"

#include <gtest/gtest.h>

namespace distlock::contract {

Details::Details(const google::rpc::Status& error) : code(error.code()), message(error.message()) {
  for (const auto& detail : error.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) {
      EXPECT_EQ(info.domain(), "distlock");
      EXPECT_EQ(reason, "") << "two ErrorInfos";
      reason = info.reason();
      facts.insert(info.metadata().begin(), info.metadata().end());
    }
    detail.UnpackTo(&retry);
    detail.UnpackTo(&bad);
    detail.UnpackTo(&resource);
  }
  for (const auto& violation : bad.field_violations()) fields.push_back(violation.field());
}

}  // namespace distlock::contract
