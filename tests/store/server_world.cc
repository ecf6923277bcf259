// SPDX-License-Identifier: Apache-2.0
#include "server_world.h"

#include <chrono>

namespace distlock::store {
namespace {

class ServerWorld : public StoreWorld {
 public:
  explicit ServerWorld(const std::string& binary) : server_(StartServer("", binary)) {}

  std::unique_ptr<Store> MakeStore(const LockOptions& locks) override {
    StoreOptions options;
    options.url = server_->Url();
    options.locks = locks;
    return OpenStore(loop_.get(), options);
  }
  bool RunUntil(const std::function<bool()>& done) override { return loop_.RunUntil(done); }
  void Advance(core::Duration time) override {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) loop_.Turn();
  }
  std::string Command(std::initializer_list<std::string_view> argv) override { return Admin(server_->Url()).Str(argv); }
  void HangUp() override {
    Command({"CLIENT", "KILL", "TYPE", "normal"});
    Command({"CLIENT", "KILL", "TYPE", "pubsub"});
  }

 private:
  std::unique_ptr<EmbeddedServer> server_;
  TestLoop loop_;
};

}  // namespace

std::unique_ptr<StoreWorld> MakeServerWorld(const std::string& binary) { return std::make_unique<ServerWorld>(binary); }

}  // namespace distlock::store
