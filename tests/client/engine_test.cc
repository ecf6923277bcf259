// SPDX-License-Identifier: Apache-2.0
//
// The Engine beside a stream whose every step the test takes.
#include "engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distlock::internal {
namespace {

class SteppedStream final : public Stream {
 public:
  using Stream::Stream;
  void Start(const std::optional<std::string>&) override { started.Notify(); }
  void Write() override {}
  void Cancel() override { cancelled = true; }
  void Finish() override { finished = true; }

  Notification started;
  std::atomic<bool> cancelled = false;
  std::atomic<bool> finished = false;
};

class OneStream final : public Transport {
 public:
  explicit OneStream(std::shared_ptr<SteppedStream> stream) : stream_(std::move(stream)) {}
  std::shared_ptr<Stream> NewStream(std::shared_ptr<Engine>, int, size_t) override {
    EXPECT_NE(stream_, nullptr) << "a second stream";
    return std::exchange(stream_, nullptr);
  }

 private:
  std::shared_ptr<SteppedStream> stream_;
};

TEST(EngineTest, ABrokerThatRefusesASessionBeforeItIsWrittenIsHeard) {
  const auto stream = std::make_shared<SteppedStream>(0, 0);
  ClientOptions options{.address = "a:1,b:1"};
  std::atomic<bool> told = false;
  options.reconnect_initial = options.reconnect_max = std::chrono::hours(1000);
  options.log = [&](LogLevel, std::string_view line) { told = told || line.find("full") != line.npos; };
  const auto engine = std::make_shared<Engine>(options, [&](const ClientOptions&, const std::vector<std::string>&) {
    return std::make_unique<OneStream>(stream);
  });
  engine->Start();
  stream->started.WaitForNotification();
  engine->OnReadEnd(*stream);
  EXPECT_FALSE(stream->cancelled) << "its status would take the place of the broker's";
  EXPECT_FALSE(stream->finished) << "a write is in flight";
  engine->OnWritten(*stream, /*ok=*/false);
  EXPECT_TRUE(stream->finished);
  engine->OnStreamEnd(*stream, grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"));
  EXPECT_TRUE(told);
  engine->Close();
}

}  // namespace
}  // namespace distlock::internal
