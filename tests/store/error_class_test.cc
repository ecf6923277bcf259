// SPDX-License-Identifier: Apache-2.0
#include "store/redis/error_class.h"

#include <gtest/gtest.h>

namespace distlock::store {
namespace {

TEST(StoreError, SaysWhatRan) {
  const struct {
    const char* text;
    ErrorClass meaning;
  } cases[] = {
      {"NOSCRIPT No matching script. Please use EVAL.", ErrorClass::kNoScript},
      {"READONLY You can't write against a read only replica.", ErrorClass::kWrongServer},
      {"READONLY You can't write against a read only replica. script: ab, on @user_script:9.",
       ErrorClass::kWrongServer},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ErrorClass::kWrongServer},
      {"LOADING Redis is loading the dataset in memory", ErrorClass::kUnavailable},
      {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
       ErrorClass::kUnavailable},
      {"NOREPLICAS Not enough good replicas to write. script: ab, on @user_script:9.", ErrorClass::kUnavailable},
      {"MISCONF Redis is configured to save RDB snapshots. script: ab, on @user_script:9.", ErrorClass::kUnavailable},
      {"CLUSTERDOWN Hash slot not served", ErrorClass::kUnavailable},
      {"MOVED 3999 127.0.0.1:6381", ErrorClass::kUnavailable},
      {"ASK 3999 127.0.0.1:6381", ErrorClass::kUnavailable},
      {"TRYAGAIN Multiple keys request during rehashing of slot", ErrorClass::kUnavailable},
      {"ERR max number of clients reached", ErrorClass::kUnavailable},
      {"OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::kFull},
      {"OOM command not allowed when used memory > 'maxmemory'. script: ab, on @user_script:1.", ErrorClass::kFull},
      {"ERR Error running script (call to f_ab): @user_script:12: @user_script: 12: -OOM command not allowed when used "
       "memory > 'maxmemory'.",
       ErrorClass::kFull},
      {"ERR Error running script (call to f_ab): @user_script:12: -READONLY You can't write.",
       ErrorClass::kWrongServer},
      // An item of a batch, as Redis 6 hands it to redis.pcall.
      {"@user_script: 37: -OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::kFull},
      {"@user_script: 37: -READONLY You can't write against a read only replica.", ErrorClass::kWrongServer},
      {"@user_script: 37: -NOAUTH", ErrorClass::kUnknown},
      {"@user_script: 37: Unknown Redis command called from Lua script", ErrorClass::kUnknown},
      {"ERR Error running script (call to f_ab): @user_script:12: attempt to index nil", ErrorClass::kUnknown},
      {"NOAUTH Authentication required.", ErrorClass::kDenied},
      {"WRONGPASS invalid username-password pair or user is disabled.", ErrorClass::kDenied},
      {"NOPERM this user has no permissions to run the 'evalsha' command", ErrorClass::kDenied},
      // Half a script may have run.
      {"NOPERM ACL failure in script: User u has no permissions to run the 'zadd' command script: ab, on "
       "@user_script:9.",
       ErrorClass::kUnknown},
      {"ERR The user executing the script can't run this command or subcommand script: ab, on @user_script:9.",
       ErrorClass::kUnknown},
      {"WRONGTYPE Operation against a key holding the wrong kind of value script: ab, on @user_script:9.",
       ErrorClass::kUnknown},
      {"ERR unknown", ErrorClass::kUnknown},
      {"OOMPH", ErrorClass::kUnknown},
      {"", ErrorClass::kUnknown},
  };
  for (const auto& c : cases) EXPECT_EQ(ClassifyError(c.text), c.meaning) << c.text;
}

TEST(ErrorClasses, ARefusalIsShownWithoutTheScript) {
  EXPECT_EQ(RefusalText("NOREPLICAS Not enough good replicas to write. script: ab, on @user_script:9."),
            "NOREPLICAS Not enough good replicas to write.");
  EXPECT_EQ(RefusalText("NOPERM this user has no permissions"), "NOPERM this user has no permissions");
  EXPECT_EQ(RefusalText("CLUSTERDOWN Hash slot not served"), "CLUSTERDOWN Hash slot not served");
  EXPECT_EQ(RefusalText("MOVED 1 127.0.0.1:1"), "") << "the key is at another node";
}

}  // namespace
}  // namespace distlock::store
