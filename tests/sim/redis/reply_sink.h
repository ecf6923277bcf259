// SPDX-License-Identifier: Apache-2.0
//
// Receives a command's reply, one value after the other, for a client or a script. Thread: the model's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "store/redis/resp.h"

namespace distlock::sim {

// A reply is exactly one value; an array of n values is Array(n), followed by the values.
class ReplySink {
 public:
  virtual void Integer(int64_t value) = 0;
  virtual void Bulk(std::string_view text) = 0;
  virtual void Null() = 0;
  virtual void Status(std::string_view text) = 0;
  // `text` begins with the error's code, without the '-'.
  virtual void Error(std::string_view text) = 0;
  virtual void Array(size_t size) = 0;

 protected:
  ~ReplySink() = default;
};

// Builds the reply as hiredis would have read it.
class ReplyTree final : public ReplySink {
 public:
  void Integer(int64_t value) override;
  void Bulk(std::string_view text) override;
  void Null() override;
  void Status(std::string_view text) override;
  void Error(std::string_view text) override;
  void Array(size_t size) override;

  // Null when no value was added.
  store::ReplyPtr Take() { return std::move(root_); }

 private:
  struct Open {
    redisReply* array;
    size_t next;
  };

  redisReply* Add(int type);
  void AddText(int type, std::string_view text);

  store::ReplyPtr root_;
  absl::InlinedVector<Open, 4> open_;
};

}  // namespace distlock::sim
