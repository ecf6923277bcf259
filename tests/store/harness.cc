// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>

#include "store/text.h"

namespace distlock::store {
namespace {

constexpr std::chrono::seconds kPatience{20};

}  // namespace

TestLoop::TestLoop() {
  uv_loop_init(&loop_);
  uv_timer_init(&loop_, &tick_);
  uv_timer_start(&tick_, [](uv_timer_t*) {}, 10, 10);
  uv_unref(reinterpret_cast<uv_handle_t*>(&tick_));
}

TestLoop::~TestLoop() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (uv_loop_alive(&loop_) != 0 && std::chrono::steady_clock::now() < deadline) Turn();
  uv_close(reinterpret_cast<uv_handle_t*>(&tick_), nullptr);
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
}

void TestLoop::Turn() { uv_run(&loop_, UV_RUN_ONCE); }

bool TestLoop::RunUntil(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    Turn();
  }
  return true;
}

size_t Recorder::Replies(core::OpId op) const {
  size_t n = 0;
  for (const auto& input : inputs) {
    const auto* reply = std::get_if<core::StoreReply>(&input);
    n += reply != nullptr && reply->op == op;
  }
  return n;
}

const core::StoreReply* Recorder::Reply(core::OpId op) const {
  for (const auto& input : inputs) {
    const auto* reply = std::get_if<core::StoreReply>(&input);
    if (reply != nullptr && reply->op == op) return reply;
  }
  return nullptr;
}

bool Recorder::Up() const {
  bool up = false;
  for (const auto& input : inputs) {
    if (std::holds_alternative<core::StoreUp>(input)) up = true;
    if (std::holds_alternative<core::StoreDown>(input)) up = false;
  }
  return up;
}

Admin::Admin(const StoreUrl& url) : context_(redisConnectUnix(url.address.path.c_str())) {
  EXPECT_TRUE(context_ && context_->err == 0) << "cannot reach " << url.address.path;
}

ReplyPtr Admin::Do(std::initializer_list<std::string_view> args) {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
  for (const auto arg : args) {
    data.push_back(arg.data());
    sizes.push_back(arg.size());
  }
  return ReplyPtr(static_cast<redisReply*>(
      redisCommandArgv(context_.get(), static_cast<int>(data.size()), data.data(), sizes.data())));
}

std::string Admin::Str(std::initializer_list<std::string_view> args) {
  const ReplyPtr reply = Do(args);
  if (!reply) return "(no reply)";
  return reply->type == REDIS_REPLY_INTEGER ? Cat(reply->integer) : std::string(Text(*reply));
}

std::unique_ptr<EmbeddedServer> StartServer(const std::string& dir, const std::string& binary) {
  auto server = EmbeddedServer::Start({.server = binary, .dir = dir});
  if (!server.ok()) {
    ADD_FAILURE() << server.status();
    abort();
  }
  return *std::move(server);
}

StoreOptions OptionsFor(const StoreUrl& url, const std::string& broker_id) {
  StoreOptions options;
  options.url = url;
  options.locks.broker_id = broker_id;
  return options;
}

core::LockName Lock(std::string_view key) { return core::LockName::Encode("default", key); }

core::OwnerId Owner(uint8_t n) {
  core::OwnerId owner{};
  owner.fill(n);
  return owner;
}

core::StoreAcquire MakeAcquire(core::OpId op, const core::LockName& name, core::OwnerId owner, bool wait) {
  core::StoreAcquire acquire;
  acquire.op = op;
  acquire.name = name;
  acquire.owner = owner;
  acquire.ttl = std::chrono::seconds(30);
  acquire.wait = wait;
  acquire.info = Cat("info;of\n", op);
  return acquire;
}

TempDir::TempDir() {
  std::string pattern = Cat(std::filesystem::temp_directory_path().string(), "/dl-test-XXXXXX");
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace distlock::store
