// SPDX-License-Identifier: Apache-2.0
//
// The store of one server passes the suite, on each kind of server.
#include "model_world.h"
#include "redis/installed_servers.h"
#include "server_world.h"

namespace distlock::store {
namespace {

std::vector<StoreKind> Kinds() {
  std::vector<StoreKind> kinds;
  for (const std::string& binary : sim::InstalledServers()) {
    kinds.push_back({sim::KindOfServer(binary), {}, [binary] { return MakeServerWorld(binary); }});
  }
  for (const bool in_company : {false, true}) {
    kinds.push_back(
        {in_company ? "ModelInCompany" : "Model", {.virtual_time = true}, [] { return MakeModelWorld(); }, in_company});
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Single, StoreConformance, testing::ValuesIn(Kinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Single, StoreConformanceOfOneServer, testing::ValuesIn(Kinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Single, StoreConformanceOfPermits, testing::ValuesIn(Kinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Single, StoreConformanceOfPrimaries, testing::ValuesIn(Kinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Single, StoreConformanceOfPrimariesOverTime,
                         testing::ValuesIn(KindsWith(&WorldTraits::virtual_time, Kinds())), NameOf);
INSTANTIATE_TEST_SUITE_P(Single, StoreConformanceOverTime,
                         testing::ValuesIn(KindsWith(&WorldTraits::virtual_time, Kinds())), NameOf);

}  // namespace
}  // namespace distlock::store
