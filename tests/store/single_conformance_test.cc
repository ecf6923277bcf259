// SPDX-License-Identifier: Apache-2.0
#include "conformance.h"

namespace distlock::store {
namespace {

class RedisWorld : public StoreWorld {
 public:
  std::unique_ptr<Store> MakeStore(const std::string& broker_id) override {
    return OpenStore(loop_.get(), OptionsFor(server_->Url(), broker_id));
  }
  void Turn() override { loop_.Turn(); }
  void HangUp() override {
    Admin admin(server_->Url());
    admin.Do({"CLIENT", "KILL", "TYPE", "normal"});
    admin.Do({"CLIENT", "KILL", "TYPE", "pubsub"});
  }

 private:
  std::unique_ptr<EmbeddedServer> server_ = StartServer();
  TestLoop loop_;
};

INSTANTIATE_TEST_SUITE_P(Redis, StoreConformance,
                         testing::Values(StoreKind{"OneServer", [] { return std::make_unique<RedisWorld>(); }}),
                         NameOf);

}  // namespace
}  // namespace distlock::store
