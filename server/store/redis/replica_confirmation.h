// SPDX-License-Identifier: Apache-2.0
//
// Keeps what the server answered until enough of its replicas have confirmed it, by WAIT on the connection that wrote.
// What they do not confirm in time is passed on as unknown, never as given: a failover may forget it.
//
// Why one WAIT covers every answer that came before its own: a server runs the commands of a connection in order, and
// answers them in order. So whatever was answered before the WAIT had been written before it.
//
// After two WAITs in a row that came short, acquires are refused before they are sent, until a WAIT is confirmed again;
// all else is still tried.
//
// Thread: the loop's. Ownership: the sender and timers outlive it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "core/messages.h"
#include "store/redis/command_sender.h"
#include "store/redis/transport.h"
#include "store/store_options.h"

namespace distlock::store {

class ReplicaConfirmation {
 public:
  // Passes an answer on, or what is left of it when it was not confirmed. Never called from within Flush or Ask.
  using Pass = std::function<void(core::StoreReply&& reply)>;

  ReplicaConfirmation(CommandSender* sender, Timers& timers, const StoreOptions& options, Pass pass);

  // Replicas are to confirm; else every answer is passed on at once.
  bool on() const { return wanted_ > 0; }
  // Why this command is not to be sent now; "": it is.
  std::string Refusal(const core::StoreCommand& command) const;

  // `command` was handed to the sender.
  void OnSent(const core::StoreCommand& command);
  // All commands of this turn were handed to the sender: asks behind those that may grant or renew.
  void Flush();
  // The server, or the connection's end, has answered.
  void OnAnswer(core::StoreReply&& reply);

  // Asks for all that was sent so far. `done` gets how many have confirmed it; 0 also when the connection has ended.
  void Ask(std::function<void(int confirmed)> done);
  // The connection leads to a server of which nothing is known yet.
  void OnServer() { short_in_row_ = 0; }
  // No probe is made from now on.
  void Stop();

 private:
  static constexpr int kShortUntilRefused = 2;

  bool refuses() const { return short_in_row_ >= kShortUntilRefused; }
  void Learn(bool enough, const std::string& trouble, core::Duration took);
  void PassAll(bool enough, const std::string& trouble);
  void Probe();

  // Const after construction.
  CommandSender* const sender_;
  const int wanted_;
  const core::Duration timeout_;
  const std::string command_;
  const std::function<void(core::Duration took, bool confirmed)> on_wait_;
  const Pass pass_;

  bool may_write_ = false;  // a command of this turn may grant or renew
  int asked_ = 0;           // WAITs without an answer yet
  std::deque<core::StoreReply> kept_;
  int short_in_row_ = 0;
  std::string trouble_;  // of the last WAIT, when it came short
  const std::unique_ptr<Timer> probe_timer_;
};

}  // namespace distlock::store
