// SPDX-License-Identifier: Apache-2.0
//
// The store's tests share this: a loop that runs until something is true, a listener that remembers, an administrator's
// connection, and names of locks and owners. One thread.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/messages.h"
#include "store/embedded/embedded_server.h"
#include "store/open_store.h"
#include "store/redis/keys.h"
#include "store/redis/resp.h"

namespace distlock::store {

class TestLoop {
 public:
  TestLoop();
  ~TestLoop();  // runs until everything is closed; fails the test when that does not happen
  uv_loop_t* get() { return &loop_; }

  // One turn; comes back after some milliseconds also when nothing happens.
  void Turn();
  // False after 20 s.
  [[nodiscard]] bool RunUntil(const std::function<bool()>& done);

 private:
  uv_loop_t loop_;
  uv_timer_t tick_;  // not counted among what keeps the loop alive
};

class Recorder : public StoreListener {
 public:
  void OnStoreInput(core::Input&& input) override {
    inputs.push_back(std::move(input));
    if (on_input) on_input(inputs.back());
  }

  template <typename T>
  size_t Count() const {
    size_t n = 0;
    for (const auto& input : inputs) n += std::holds_alternative<T>(input);
    return n;
  }
  template <typename T>
  const T* Last() const {
    for (auto it = inputs.rbegin(); it != inputs.rend(); ++it) {
      if (const T* found = std::get_if<T>(&*it)) return found;
    }
    return nullptr;
  }
  size_t Replies(core::OpId op) const;
  const core::StoreReply* Reply(core::OpId op) const;
  // As of the last StoreUp or StoreDown.
  bool Up() const;

  std::vector<core::Input> inputs;
  std::function<void(const core::Input&)> on_input;
};

// A blocking connection with all rights.
class Admin {
 public:
  explicit Admin(const StoreUrl& url);
  ReplyPtr Do(std::initializer_list<std::string_view> args);
  std::string Str(std::initializer_list<std::string_view> args);  // text, or the integer in decimal

 private:
  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  std::unique_ptr<redisContext, Free> context_;
};

// A server of the test's own, with nothing in it. `binary`: as EmbeddedOptions::server.
std::unique_ptr<EmbeddedServer> StartServer(const std::string& dir = "", const std::string& binary = "");

StoreOptions OptionsFor(const StoreUrl& url, const std::string& broker_id = "00000000000000b1");

core::LockName Lock(std::string_view key);
core::OwnerId Owner(uint8_t n);
core::StoreAcquire MakeAcquire(core::OpId op, const core::LockName& name, core::OwnerId owner, bool wait = false);

// A folder that is gone at the end of the test.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace distlock::store
