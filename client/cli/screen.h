// SPDX-License-Identifier: Apache-2.0
//
// The whole terminal, in curses' hands from construction to destruction. Apart, because the macros of curses break
// other headers. One thread; at most one exists. Signals must arrive through a descriptor (signals.h): a handler that
// ends the process would leave the terminal as it is.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace distlock::cli {

// What no character stands for; any other key is its byte.
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

  // False: this kind of terminal is not known, and nothing was done to it.
  bool ok() const { return terminal_ != nullptr; }
  size_t height() const;

  // `marked`: the line that stands out.
  void Draw(const std::vector<std::string>& lines, size_t marked) const;

  // The next key that was pressed; never blocks.
  std::optional<int> TakeKey() const;

  // Gives the terminal back as it was found, until Resume(), which also learns its size anew.
  void Suspend() const;
  void Resume() const;

 private:
  void* const terminal_;
};

}  // namespace distlock::cli
