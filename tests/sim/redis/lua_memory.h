// SPDX-License-Identifier: Apache-2.0
//
// Memory for one lua_State. Lua makes many small allocations, and names the size when it frees a block: lists of free
// blocks by size make a script call a third faster than malloc does.
//
// A script call leaves garbage behind, and to collect it costs a fifth of the call. So the blocks lie in one region,
// whose beginning can be kept: to go back to it is to copy it, and is cheap for many calls at once.
//
// Thread: that of the lua_State.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace distlock::sim {

class LuaMemory {
 public:
  // Untouched memory costs address space only.
  static constexpr size_t kRegion = size_t{64} << 20;

  LuaMemory() : region_(new std::byte[kRegion]) {}
  LuaMemory(const LuaMemory&) = delete;
  LuaMemory& operator=(const LuaMemory&) = delete;

  // A lua_Alloc; `memory` is a LuaMemory.
  static void* Allocate(void* memory, void* block, size_t old_size, size_t new_size) {
    auto* const self = static_cast<LuaMemory*>(memory);
    if (block != nullptr && new_size > 0 && Class(old_size) == Class(new_size)) return block;
    void* const fresh = new_size == 0 ? nullptr : self->Get(new_size);
    if (block == nullptr) return fresh;
    if (new_size > 0) std::memcpy(fresh, block, std::min(old_size, new_size));
    self->Put(block, old_size);
    return fresh;
  }

  // Bytes that were taken from the region since Keep, or since it was made.
  size_t grown() const { return state_.used - kept_state_.used; }
  // Keeps what is allocated now, for GoBack. False: some of it is too large to lie in the region.
  bool Keep() {
    if (outside_ > 0) return false;
    kept_state_ = state_;
    kept_.assign(region_.get(), region_.get() + state_.used);
    return true;
  }
  // Every block is as it was at Keep, and there are no others: pointers to what was allocated later end. Does nothing
  // while a block lies outside the region.
  void GoBack() {
    if (outside_ > 0) return;
    state_ = kept_state_;
    std::memcpy(region_.get(), kept_.data(), kept_.size());
  }

 private:
  static constexpr size_t kUnit = 16;
  static constexpr size_t kSmallUnits = 64;
  static constexpr size_t kClasses = kSmallUnits + 1 + 64;

  struct Free {
    Free* next;
  };
  struct State {
    size_t used = 0;  // of the region
    std::array<Free*, kClasses> free{};
  };

  // Blocks of one class have one size: small ones a number of units, others a power of two.
  static size_t Class(size_t size) {
    const size_t units = (size + kUnit - 1) / kUnit;
    return units <= kSmallUnits ? units : kSmallUnits + std::bit_width(size - 1);
  }
  static size_t SizeOf(size_t of_class) {
    return of_class <= kSmallUnits ? of_class * kUnit : size_t{1} << (of_class - kSmallUnits);
  }

  void* Get(size_t size) {
    const size_t of_class = Class(size);
    Free*& head = state_.free[of_class];
    if (head != nullptr) return std::exchange(head, head->next);
    const size_t wanted = SizeOf(of_class);
    if (kRegion - state_.used < wanted) {
      ++outside_;
      return ::operator new(wanted);
    }
    return region_.get() + std::exchange(state_.used, state_.used + wanted);
  }

  void Put(void* block, size_t size) {
    if (block < region_.get() || block >= region_.get() + kRegion) {
      --outside_;
      return ::operator delete(block);
    }
    Free*& head = state_.free[Class(size)];
    head = new (block) Free{head};
  }

  const std::unique_ptr<std::byte[]> region_;
  size_t outside_ = 0;  // blocks that did not fit into the region
  State state_;
  State kept_state_;
  std::vector<std::byte> kept_;
};

}  // namespace distlock::sim
