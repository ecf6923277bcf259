// SPDX-License-Identifier: Apache-2.0
#include "http/exchange.h"

#include <microhttpd.h>

#include <algorithm>
#include <utility>

#include "http/connections.h"

namespace distlock::http {

std::vector<std::string_view> Request::All(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : headers) {
    if (key == name) values.emplace_back(value);
  }
  return values;
}

std::string_view Request::Header(std::string_view name) const {
  const auto values = All(name);
  return values.empty() ? std::string_view() : values.front();
}

bool Exchange::Answer(Reply reply) {
  std::lock_guard lock(mu_);
  if (over_ || reply_) return false;
  reply_ = std::move(reply);
  Resume();
  return true;
}

bool Exchange::IsAnswered() const {
  std::lock_guard lock(mu_);
  return over_ || reply_;
}

void Exchange::BeginStream(Reply head, std::string beat, std::function<void()> drained) {
  std::lock_guard lock(mu_);
  if (over_ || reply_) return;
  reply_ = std::move(head);
  streaming_ = true;
  beat_ = std::move(beat);
  drained_ = std::move(drained);
  written_ = std::chrono::steady_clock::now();
  Resume();
}

void Exchange::Write(std::string_view bytes) {
  std::lock_guard lock(mu_);
  if (over_ || !streaming_ || ended_) return;
  pending_ += bytes;
  drains_ = true;
  written_ = std::chrono::steady_clock::now();
  Resume();
}

void Exchange::End() {
  std::lock_guard lock(mu_);
  if (!streaming_) return;
  ended_ = true;
  Resume();
}

void Exchange::Beat(std::chrono::steady_clock::time_point now) {
  std::lock_guard lock(mu_);
  if (over_ || !streaming_ || ended_ || now - written_ < kBeat || !pending_.empty()) return;
  pending_ += beat_;
  written_ = now;
  Resume();
}

void Exchange::OnGone(std::function<void()> gone) {
  std::unique_lock lock(mu_);
  gone_ = std::move(gone);
  if (over_) TellGone(std::move(lock));
}

void Exchange::Attach(MHD_Connection* connection, Connections* watch) {
  std::lock_guard lock(mu_);
  connection_ = connection;
  watch_ = watch;
}

Exchange::Turn Exchange::Next() {
  std::lock_guard lock(mu_);
  if (reply_) return streaming_ ? Turn::kStream : Turn::kReply;
  if (over_) return Turn::kAbort;
  Suspend();
  return Turn::kWait;
}

Reply Exchange::TakeReply() {
  std::lock_guard lock(mu_);
  // The value stays, so that the exchange stays answered.
  return std::exchange(*reply_, {});
}

long Exchange::Read(char* buffer, size_t room) {
  std::unique_lock lock(mu_);
  if (pending_.empty() && drains_ && drained_ && !ended_ && !over_) {
    drains_ = false;
    const auto drained = drained_;
    lock.unlock();
    drained();
    lock.lock();
  }
  if (!pending_.empty()) {
    const size_t some = std::min(room, pending_.size());
    pending_.copy(buffer, some);
    pending_.erase(0, some);
    return static_cast<long>(some);
  }
  if (ended_) return kEnd;
  if (over_) return kCut;
  Suspend();
  return kNothing;
}

void Exchange::Suspend() {
  suspended_ = true;
  MHD_suspend_connection(connection_);
  watch_->Watch(connection_, weak_from_this());
}

void Exchange::Resume() {
  if (!suspended_) return;
  suspended_ = false;
  watch_->Unwatch(connection_);
  MHD_resume_connection(connection_);
}

void Exchange::Detach() {
  std::unique_lock lock(mu_);
  connection_ = nullptr;
  watch_ = nullptr;
  const bool told = std::exchange(over_, true);
  if (!told) TellGone(std::move(lock));
}

void Exchange::Leave() {
  std::unique_lock lock(mu_);
  if (std::exchange(over_, true)) return;
  Resume();
  TellGone(std::move(lock));
}

void Exchange::Stop(Reply why) {
  std::unique_lock lock(mu_);
  if (over_ || IsComplete()) return;
  if (streaming_) {
    ended_ = true;
  } else {
    reply_ = std::move(why);
  }
  over_ = true;
  stopped_ = true;
  Resume();
  TellGone(std::move(lock));
}

void Exchange::TellGone(std::unique_lock<std::mutex> lock) {
  auto gone = std::exchange(gone_, nullptr);
  const bool complete = IsComplete();
  lock.unlock();
  if (gone && !complete) gone();
}

}  // namespace distlock::http
