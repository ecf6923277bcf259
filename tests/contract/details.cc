// SPDX-License-Identifier: Apache-2.0
#include "contract/details.h"

#include <gtest/gtest.h>

#include "distlock/wire/status_details.h"

namespace distlock::contract {

Details::Details(const wire::RpcStatus& error) : code(error.code()), message(error.message()) {
  for (const auto& detail : error.details()) {
    wire::ErrorInfo info;
    if (wire::UnpackDetail(detail, &info)) {
      EXPECT_EQ(info.domain(), "distlock");
      EXPECT_EQ(reason, "") << "two ErrorInfos";
      reason = info.reason();
      facts.insert(info.metadata().begin(), info.metadata().end());
    }
    wire::UnpackDetail(detail, &retry);
    wire::UnpackDetail(detail, &bad);
    wire::UnpackDetail(detail, &resource);
  }
  for (const auto& violation : bad.field_violations()) fields.push_back(violation.field());
}

}  // namespace distlock::contract
