// SPDX-License-Identifier: Apache-2.0
//
// The whole terminal, which curses controls from construction to destruction. Hides the header of curses, whose macros
// break other headers. One thread; at most one Screen exists. Signals must arrive through a descriptor (signals.h): a
// handler that ends the process would not restore the terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace distlock::cli {

// Keys without a character; any other key is its byte.
inline constexpr int kKeyUp = 1000;
inline constexpr int kKeyDown = 1001;
inline constexpr int kKeyPageUp = 1002;
inline constexpr int kKeyPageDown = 1003;
inline constexpr int kKeyErase = 1004;
inline constexpr int kKeyEnter = 1005;

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // False: the kind of terminal (TERM) is not known, and nothing was changed.
  bool ok() const { return terminal_ != nullptr; }
  size_t height() const;

  // `marked`: the line that is shown in reverse.
  void Draw(const std::vector<std::string>& lines, size_t marked) const;

  // The next key that was pressed; never blocks.
  std::optional<int> TakeKey() const;

  // Restores the terminal as the constructor found it, until Resume(), which also reads its size again.
  void Suspend() const;
  void Resume() const;

 private:
  void* const terminal_;
};

}  // namespace distlock::cli
