// SPDX-License-Identifier: Apache-2.0
//
// The network and the timers that a broker's store runs on in a simulation: implements the production's seam
// (store/redis/transport.h) over wires and virtual time. A broker knows addresses only; the simulation's directory says
// which server listens there now, like DNS or a virtual IP.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/endpoint.h"
#include "simulation/wire.h"
#include "store/redis/transport.h"

namespace distlock::sim {

class Directory {
 public:
  static constexpr const char* kStoreHost = "store";  // of a store that has one name

  void Lead(std::string host, Endpoint& server) { servers_[std::move(host)] = &server; }
  // Null: the host does not exist.
  Endpoint* Find(std::string_view host) const {
    const auto found = servers_.find(host);
    return found == servers_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, Endpoint*, std::less<>> servers_;
};

class WireTransport;

// Each life of a broker has one of its own.
class SimDialer : public store::Dialer {
 public:
  SimDialer(Env& env, Process& broker, const Directory& directory)
      : env_(env), broker_(broker), directory_(directory) {}

  std::shared_ptr<store::Transport> Dial(const store::ServerAddress& address, store::Transport::Owner* owner) override;

  // The open connection of that kind, for faults; null when there is none.
  WirePtr command_wire() const { return OpenWire(false); }
  WirePtr channel_wire() const { return OpenWire(true); }

  // Counts a command that was sent then and answered with an error. Fails the simulation when there are so many within
  // a short time that a broker must be repeating commands without a pause.
  void CountRefusal(Instant sent);

 private:
  WirePtr OpenWire(bool subscribed) const;

  Env& env_;
  Process& broker_;
  const Directory& directory_;
  std::vector<std::weak_ptr<WireTransport>> transports_;
  Instant refusals_since_{};
  int refusals_ = 0;
  size_t leases_then_ = 0;
};

class SimTimers : public store::Timers {
 public:
  SimTimers(Env& env, Process& broker) : env_(env), broker_(broker) {}

  Instant Now() const override { return Instant(broker_.LocalTime()); }
  std::unique_ptr<store::Timer> Make(std::function<void()> fire) override;

 private:
  Env& env_;
  Process& broker_;
};

// One connection. Each command is a message of its own on the wire, so that a connection may break after any command of
// a pipeline.
class WireTransport : public store::Transport, public std::enable_shared_from_this<WireTransport> {
 public:
  WireTransport(Env& env, Process& broker, SimDialer* dialer, Owner* owner);

  // `server`: null when no server listens at the address.
  void Begin(Endpoint* server);

  void Append(std::string_view command) override;
  void Flush() override;
  uint64_t appended() const override { return appended_; }
  uint64_t sent() const override;
  void Close() override;

  const WirePtr& wire() const { return wire_; }
  bool subscribed() const { return subscribed_; }

 private:
  struct Sent {
    uint64_t message;  // on the wire
    uint64_t end;      // its end in the stream of bytes
  };

  void SendOne(std::string command);
  void Deliver(store::ReplyPtr reply, Instant sent);
  void Fail(const std::string& cause);
  // True when the socket's buffer is full because the peer reads nothing.
  bool IsFull() const;

  Env& env_;
  Process& broker_;
  SimDialer* const dialer_;
  const size_t room_;  // messages that fit into the socket's buffer while the peer reads none
  Owner* owner_;       // null once the connection is over
  Endpoint* server_ = nullptr;
  int connection_ = 0;
  WirePtr wire_;
  bool subscribed_ = false;
  bool flush_waits_ = false;
  uint64_t appended_ = 0;
  uint64_t offered_ = 0;
  std::deque<std::string> waiting_;  // appended, and not offered to the network yet
  std::deque<Sent> sent_;            // messages that had not arrived when the last one was sent
  uint64_t arrived_ = 0;             // the end of the messages that had arrived
};

}  // namespace distlock::sim
