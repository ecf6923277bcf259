// SPDX-License-Identifier: Apache-2.0
//
// The model behaves as real servers do: random actions on both, with everything compared. Reproduce a failure with the
// RC_PARAMS that it prints. DISTLOCK_MODEL_CHECK_SEQUENCES sets the number of sequences per server.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "redis/installed_servers.h"
#include "redis/mischief.h"
#include "redis/twins.h"
#include "store/text.h"

namespace distlock::sim {

void showValue(const Action& action, std::ostream& out) { out << "\n  " << ActionText(action); }

namespace {

constexpr int kSequences = 2000;
constexpr int kLongest = 100;

// In so many sequences each of these comes often; if one is missing, the test does not try that case any more.
constexpr int kEnoughSequences = 300;
constexpr const char* kMustBeSeen[] = {
    "reply 1",  "reply 2",   "reply 3",     "reply 4",    "reply 5",  "reply 6",  "reply 7",  "reply 8",  "reply 9",
    "reply 10", "reply 11",  "reply 12",    "reply 13",   "reply 20", "reply 21", "reply 22", "reply 23", "-NOSCRIPT",
    "-OOM",     "-READONLY", "-NOREPLICAS", "-WRONGTYPE", "-ERR",     "message",  "INFO",     "SCAN"};

rc::Gen<Deed> AnyDeed() {
  return rc::gen::weightedElement<Deed>(
      {{36, Deed::kAcquire},     {6, Deed::kRenew},     {16, Deed::kRelease},   {8, Deed::kWithdraw},
       {6, Deed::kTend},         {2, Deed::kInspect},   {3, Deed::kBrokenCall}, {3, Deed::kSnippet},
       {24, Deed::kVote},        {1, Deed::kPutString}, {1, Deed::kPutOther},   {2, Deed::kPutWaiter},
       {2, Deed::kPutEntry},     {3, Deed::kRemove},    {2, Deed::kExpire},     {1, Deed::kFlushScripts},
       {2, Deed::kLoadScripts},  {1, Deed::kFlushAll},  {10, Deed::kListen},    {1, Deed::kUnlisten},
       {1, Deed::kHang},         {1, Deed::kPublish},   {2, Deed::kMemory},     {1, Deed::kReplica},
       {1, Deed::kWantReplicas}, {8, Deed::kClock},     {4, Deed::kToExpiry},   {2, Deed::kCompare},
       {3, Deed::kPrepare},      {2, Deed::kScan}});
}

rc::Gen<Action> AnyAction() {
  const auto any = rc::gen::inRange<uint8_t>(0, 240);
  return rc::gen::build<Action>(rc::gen::set(&Action::deed, AnyDeed()), rc::gen::set(&Action::lock, any),
                                rc::gen::set(&Action::who, any), rc::gen::set(&Action::broker, any),
                                rc::gen::set(&Action::a, any), rc::gen::set(&Action::b, any),
                                rc::gen::set(&Action::c, any));
}

std::string Play(Twins& twins, const std::vector<Action>& actions) {
  twins.Reset();
  Mischief mischief(&twins);
  for (const Action& action : actions) {
    if (!twins.difference().empty()) break;
    mischief.Do(action);
  }
  twins.CompareData();
  twins.CompareSilence();
  return twins.difference();
}

class ModelCheck : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    const char* wanted = getenv("DISTLOCK_MODEL_CHECK_SEQUENCES");
    const char* given = getenv("RC_PARAMS");
    const std::string count = wanted == nullptr ? store::Cat(kSequences) : wanted;
    setenv("RC_PARAMS", store::Cat("max_success=", count, " ", given == nullptr ? "" : given).c_str(), 1);
  }
};

TEST_P(ModelCheck, TheModelAnswersAsTheServer) {
  Twins twins(GetParam());
  int64_t sequences = 0;
  const auto start = std::chrono::steady_clock::now();
  const bool equal = rc::check("the model answers as " + GetParam(), [&] {
    const auto actions = *rc::gen::resize(kLongest, rc::gen::container<std::vector<Action>>(AnyAction()));
    ++sequences;
    const std::string difference = Play(twins, actions);
    if (!difference.empty()) RC_FAIL(difference);
  });
  EXPECT_TRUE(equal);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << sequences << " sequences and " << twins.commands() << " replies compared in " << took.count() << " s ("
            << static_cast<int64_t>(static_cast<double>(sequences) / took.count()) << " sequences a second)\nseen:";
  for (const auto& [what, count] : twins.seen()) std::cout << "  " << what << ": " << count;
  std::cout << std::endl;
  if (!equal || sequences < kEnoughSequences) return;
  for (const char* what : kMustBeSeen) EXPECT_TRUE(twins.seen().contains(what)) << "never seen: " << what;
}

std::string ServerName(const testing::TestParamInfo<std::string>& info) { return KindOfServer(info.param); }

INSTANTIATE_TEST_SUITE_P(Servers, ModelCheck, testing::ValuesIn(InstalledServers()), ServerName);

}  // namespace
}  // namespace distlock::sim
