// SPDX-License-Identifier: Apache-2.0
//
// A broker in the process of a test: `testing::Broker broker; Client client({.address = broker.address()});`. Its locks
// are in memory and only its own clients have them. It keeps the order of arrival and grants a lock to one at a time:
// also readers and permits wait for each other here. Sets of locks, metadata and limits are the real broker's to show.
//
// Thread-safe. Ends with its destructor, as a broker that dies.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace distlock::testing {

class FakeBroker;

class Broker {
 public:
  // `validity`: how long a client believes in its locks after it last heard from the broker. Short ones make tests of
  // losses quick; a busy machine may pause for longer than 1 s.
  explicit Broker(std::chrono::milliseconds validity = std::chrono::seconds(30));
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // For ClientOptions::address: a unix socket in a folder of its own under /tmp.
  const std::string& address() const;

  // Somebody else takes the lock, or waits for it behind those who came before.
  void Hold(const std::string& key);
  // Takes the lock from whoever has it, without telling the holder; the next in line gets it. Undoes Hold.
  void Free(const std::string& key);
  bool IsHeld(const std::string& key);

  // From now on: true answers, false leaves the acquires without an answer.
  void AnswerAcquires(bool answer);
  // False: clients hear nothing any more, and lose their locks when their belief ends, after at most the validity.
  void AnswerHeartbeats(bool answer);
  // Every connection breaks: locks are lost at once, and clients come back by themselves.
  void Break();
  // The broker is about to go down: clients are told, and new acquires are refused with kDraining.
  void Drain();

  // How many acquires and releases have come so far.
  size_t acquires();
  size_t releases();
  // Waits until the condition is true; false after a minute. It is asked again after everything that comes.
  bool WaitFor(const std::function<bool()>& condition);

 private:
  const std::unique_ptr<FakeBroker> broker_;
};

}  // namespace distlock::testing
