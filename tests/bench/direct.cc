// SPDX-License-Identifier: Apache-2.0
// Programs without a broker.
#include <deque>
#include <stdexcept>

#include "bench/direct_slot.h"
#include "bench/load.h"

namespace distlock::bench {
namespace {

// Threads with a connection each, and `in_flight` slots on it.
template <typename Slot>
class DirectLoad final : public Load {
 public:
  DirectLoad(int port, size_t clients, size_t in_flight)
      : Load(clients), port_(port), clients_(clients), in_flight_(in_flight) {}

  void Start() override {
    LoadScripts(ConnectRedis(port_).get());
    for (size_t i = 0; i < clients_; ++i) {
      threads_.emplace_back([this, i] {
        try {
          Run(i);
        } catch (const std::runtime_error& e) {
          Fail(e.what());
        }
      });
    }
  }

  void Stop() override {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  struct Waiting {
    Slot* slot;
    int64_t sent;
  };

  // hiredis sends what was appended when it finds no further answer among the bytes that it has read.
  void Run(size_t client) {
    const RedisConnection connection = ConnectRedis(port_);
    std::deque<Slot> slots;
    std::deque<Waiting> waiting;
    const auto ask = [&](Slot& slot) {
      redisAppendFormattedCommand(connection.get(), slot.next().data(), slot.next().size());
      waiting.push_back({&slot, NowNanos()});
    };
    for (size_t i = 0; i < in_flight_; ++i) {
      ask(slots.emplace_back(std::to_string(client) + "-" + std::to_string(i)));
    }
    while (!waiting.empty()) {
      void* raw = nullptr;
      if (redisGetReply(connection.get(), &raw) != REDIS_OK) throw std::runtime_error(connection->errstr);
      const RedisReply reply(static_cast<redisReply*>(raw));
      const auto [slot, sent] = waiting.front();
      waiting.pop_front();
      if (!slot->Take(*reply)) throw std::runtime_error("redis answers " + TextOf(*reply));
      Record(client, sent);
      if (!slot->holding()) CountPair(client);
      if (slot->holding() || !stopping()) ask(*slot);
    }
  }

  const int port_;
  const size_t clients_;
  const size_t in_flight_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Load> DirectClients(int redis_port, size_t clients) {
  return std::make_unique<DirectLoad<PlainSlot>>(redis_port, clients, 1);
}

std::unique_ptr<Load> PipelinedClient(int redis_port, size_t in_flight) {
  return std::make_unique<DirectLoad<ScriptSlot>>(redis_port, 1, in_flight);
}

}  // namespace distlock::bench
