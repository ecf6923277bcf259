// SPDX-License-Identifier: Apache-2.0
//
// How long one decision takes: a caller with 100 patterns, of a policy with 1 000 rules.
#include <benchmark/benchmark.h>

#include "access/identify.h"
#include "access/pattern_text.h"
#include "access/rights.h"

namespace distlock::access {
namespace {

std::shared_ptr<const Policy> LargePolicy(int mine, int others) {
  auto policy = std::make_shared<Policy>();
  for (int i = 0; i < mine + others; ++i) {
    Rule rule{.name = "rule-" + std::to_string(i)};
    rule.who.push_back(*ParseWho(i < mine ? "k8s:shop/*" : "uid:" + std::to_string(i)));
    rule.locks.push_back(*ParseLock("shop:orders/region-" + std::to_string(i) + "/*"));
    rule.allow = kAllAcquire | Bit(Verb::kLook);
    policy->rules.push_back(std::move(rule));
  }
  return policy;
}

const Caller kWorker = CallerOf({*ParsePrincipal("k8s:shop/worker")}, "");

void BM_Decision(benchmark::State& state) {
  const Rights rights(LargePolicy(static_cast<int>(state.range(0)), 1000 - static_cast<int>(state.range(0))), kWorker);
  std::vector<std::string> keys;
  for (int i = 0; i < 64; ++i)
    keys.push_back("orders/region-" + std::to_string(i * 7 % 110) + "/order-" + std::to_string(i));
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rights.May(Verb::kExclusive, "shop", keys[++next % keys.size()]));
  }
}
BENCHMARK(BM_Decision)->Arg(1)->Arg(100)->Arg(1000);

void BM_Resolve(benchmark::State& state) {
  const auto policy = LargePolicy(100, 900);
  for (auto _ : state) benchmark::DoNotOptimize(Rights(policy, kWorker));
}
BENCHMARK(BM_Resolve);

}  // namespace
}  // namespace distlock::access

BENCHMARK_MAIN();
