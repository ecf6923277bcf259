// SPDX-License-Identifier: Apache-2.0
#include "distlock/testing/broker.h"

#include <chrono>
#include <thread>

#include "fake_broker.h"

namespace distlock::testing {

Broker::Broker(std::chrono::milliseconds validity)
    : broker_(std::make_unique<FakeBroker>([&] {
        FakeBroker::Behaviour behaviour;
        behaviour.validity_ms = validity.count();
        return behaviour;
      }())) {}

Broker::~Broker() = default;

const std::string& Broker::address() const { return broker_->address(); }

void Broker::Hold(const std::string& key) { broker_->Hold(key); }
void Broker::Free(const std::string& key) { broker_->Free(key); }
bool Broker::IsHeld(const std::string& key) { return broker_->HeldByAnybody(key); }

void Broker::AnswerAcquires(bool answer) {
  broker_->Set([answer](FakeBroker::Behaviour& behaviour) { behaviour.grant = answer; });
}

void Broker::AnswerHeartbeats(bool answer) {
  broker_->Set([answer](FakeBroker::Behaviour& behaviour) { behaviour.answer_heartbeats = answer; });
}

void Broker::Break() { broker_->BreakStreams(); }
void Broker::Drain() { broker_->Drain(); }

size_t Broker::acquires() { return broker_->Count(v1::SessionCommand::kAcquire); }
size_t Broker::releases() { return broker_->Count(v1::SessionCommand::kRelease); }

bool Broker::WaitFor(const std::function<bool()>& condition) {
  return broker_->WaitFor([&](FakeBroker&) { return condition(); });
}

}  // namespace distlock::testing
