// SPDX-License-Identifier: Apache-2.0
#include <hiredis/adapters/libuv.h>
#include <hiredis/async.h>
#include <uv.h>

#include <deque>
#include <stdexcept>
#include <thread>

#include "bench/direct.h"

namespace distlock::bench {
namespace {

class PipelinedLoad final : public Load {
 public:
  PipelinedLoad(const Lab& lab, size_t in_flight, Transport over) : Load(1), lab_(lab), over_(over) {
    for (size_t i = 0; i < in_flight; ++i) {
      slots_.push_back({this, DirectSlot(DirectKind::kScripts, "async-" + std::to_string(i))});
    }
  }

  void Start() override {
    DirectSlot::LoadScripts(lab_.Connect(over_).get());
    uv_loop_init(&loop_);
    initialized_ = true;
    connection_ = lab_.OnTcp(over_) ? redisAsyncConnect("127.0.0.1", lab_.port())
                                    : redisAsyncConnectUnix(lab_.unix_path().c_str());
    if (connection_ == nullptr || connection_->err != 0) throw std::runtime_error("redis: cannot connect");
    redisLibuvAttach(connection_, &loop_);
    busy_ = slots_.size();
    for (Slot& slot : slots_) Ask(slot, slot.commands.acquire());
    thread_ = std::thread([this] { uv_run(&loop_, UV_RUN_DEFAULT); });
  }

  void Stop() override {
    if (thread_.joinable()) thread_.join();
    if (initialized_) uv_loop_close(&loop_);
  }

 private:
  struct Slot {
    PipelinedLoad* load;
    DirectSlot commands;
    bool holding = false;
    int64_t sent = 0;
  };

  void Ask(Slot& slot, const std::string& command) {
    slot.sent = NowNanos();
    redisAsyncFormattedCommand(connection_, &OnReply, &slot, command.data(), command.size());
  }

  static void OnReply(redisAsyncContext*, void* reply, void* slot) {
    auto* self = static_cast<Slot*>(slot);
    self->load->Handle(*self, static_cast<const redisReply*>(reply));
  }

  void Handle(Slot& slot, const redisReply* reply) {
    const std::string problem = slot.holding ? slot.commands.CheckReleased(reply) : slot.commands.CheckAcquired(reply);
    if (!problem.empty()) {
      Fail(problem);
      return Rest();
    }
    if (recording()) tally(0).op_latency.Record(NowNanos() - slot.sent);
    if (slot.holding) tally(0).pairs.fetch_add(1, std::memory_order_relaxed);
    slot.holding = !slot.holding;
    if (slot.holding) return Ask(slot, slot.commands.release());
    if (stopping()) return Rest();
    Ask(slot, slot.commands.acquire());
  }

  void Rest() {
    if (--busy_ == 0) redisAsyncDisconnect(connection_);
  }

  const Lab& lab_;
  const Transport over_;
  std::deque<Slot> slots_;
  size_t busy_ = 0;
  uv_loop_t loop_;
  bool initialized_ = false;
  redisAsyncContext* connection_ = nullptr;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Load> DirectPipelined(const Lab& lab, size_t in_flight, Transport over) {
  return std::make_unique<PipelinedLoad>(lab, in_flight, over);
}

}  // namespace distlock::bench
