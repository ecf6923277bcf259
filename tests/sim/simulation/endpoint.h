// SPDX-License-Identifier: Apache-2.0
//
// A process of a simulation that takes connections and speaks RESP: a server or a sentinel.
#pragma once

#include <functional>
#include <string_view>

#include "simulation/process.h"
#include "store/redis/resp.h"

namespace distlock::sim {

class Endpoint : public Process {
 public:
  using Process::Process;

  // Gets the reply, at once or later, but never after Disconnect.
  using Answer = std::function<void(store::ReplyPtr)>;
  // Messages for a connection that subscribes.
  using Hear = std::function<void(std::string_view channel, std::string_view payload)>;

  virtual int NewConnection() = 0;
  virtual void Run(int connection, std::string_view command, Answer answer) = 0;
  virtual void OnMessage(int connection, Hear hear) = 0;
  virtual void Disconnect(int connection) = 0;
};

}  // namespace distlock::sim
