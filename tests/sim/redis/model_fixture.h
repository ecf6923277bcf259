// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the model's tests: a model, calls as text, and everything that the model reported. One thread.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "redis/redis_model.h"
#include "redis/reply_text.h"

namespace distlock::sim {

class ModelTest : public testing::Test {
 protected:
  static constexpr int64_t kStart = 1'700'000'000'000'000;
  static constexpr int64_t kMs = 1000;

  ModelTest() {
    model.OnChange([this](std::string_view key, ChangeKind kind) {
      constexpr std::string_view kKinds[] = {"written", "deleted", "expired", "flushed"};
      changes.push_back(store::Cat(kKinds[static_cast<size_t>(kind)], " ", key));
    });
    model.OnMessage([this](int client, std::string_view channel, std::string_view payload) {
      messages.push_back(store::Cat(client, " ", channel, " ", payload));
    });
  }

  std::string DoAs(int client, const Argv& argv) { return ReplyText(*model.Execute(client, argv)); }
  std::string Do(std::initializer_list<std::string_view> argv) { return DoAs(1, Argv(argv)); }
  // EVAL with one key "k".
  std::string Eval(std::string_view script, std::initializer_list<std::string_view> args = {}) {
    Argv argv{"EVAL", script, "1", "k"};
    argv.insert(argv.end(), args);
    return DoAs(1, argv);
  }

  RedisModel model{kStart};
  std::vector<std::string> changes;
  std::vector<std::string> messages;
};

}  // namespace distlock::sim
