// SPDX-License-Identifier: Apache-2.0
//
// Where a command puts its reply, one value after the other, without knowing whether a client or a script gets it.
// Thread: the model's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "store/redis/resp.h"

namespace distlock::sim {

// Exactly one value is to be put; an array of n values is Array(n) and then these.
class ReplySink {
 public:
  virtual void Integer(int64_t value) = 0;
  virtual void Bulk(std::string_view text) = 0;
  virtual void Null() = 0;
  virtual void Status(std::string_view text) = 0;
  // With its code in front, without the '-'.
  virtual void Error(std::string_view text) = 0;
  virtual void Array(size_t size) = 0;

 protected:
  ~ReplySink() = default;
};

// Builds what hiredis would have read.
class ReplyTree final : public ReplySink {
 public:
  void Integer(int64_t value) override;
  void Bulk(std::string_view text) override;
  void Null() override;
  void Status(std::string_view text) override;
  void Error(std::string_view text) override;
  void Array(size_t size) override;

  // Null when nothing was put.
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
