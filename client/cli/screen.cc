// SPDX-License-Identifier: Apache-2.0
#include "screen.h"

#include <curses.h>

namespace distlock::cli {

Screen::Screen() : terminal_(::newterm(nullptr, stdout, stdin)) {
  if (terminal_ == nullptr) return;
  ::cbreak();
  ::noecho();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::curs_set(0);
}

Screen::~Screen() {
  if (terminal_ == nullptr) return;
  ::endwin();
  ::delscreen(static_cast<SCREEN*>(terminal_));
}

size_t Screen::height() const {
  const int rows = getmaxy(stdscr);
  return rows > 0 ? static_cast<size_t>(rows) : 1;
}

void Screen::Draw(const std::vector<std::string>& lines, size_t marked) const {
  ::werase(stdscr);
  for (size_t i = 0; i < lines.size() && i < height(); ++i) {
    if (i == marked) ::wattr_on(stdscr, A_REVERSE, nullptr);
    ::wmove(stdscr, static_cast<int>(i), 0);
    ::waddnstr(stdscr, lines[i].c_str(), getmaxx(stdscr));
    if (i == marked) ::wattr_off(stdscr, A_REVERSE, nullptr);
  }
  ::wrefresh(stdscr);
}

std::optional<int> Screen::TakeKey() const {
  const int key = ::wgetch(stdscr);
  switch (key) {
    case ERR:
    case KEY_RESIZE:
      return std::nullopt;
    case KEY_UP:
      return kKeyUp;
    case KEY_DOWN:
      return kKeyDown;
    case KEY_PPAGE:
      return kKeyPageUp;
    case KEY_NPAGE:
      return kKeyPageDown;
    case KEY_BACKSPACE:
    case '\b':
    case 0x7f:
      return kKeyErase;
    case KEY_ENTER:
    case '\r':
    case '\n':
      return kKeyEnter;
    default:
      return key;
  }
}

void Screen::Suspend() const { ::endwin(); }
void Screen::Resume() const { ::wrefresh(stdscr); }

}  // namespace distlock::cli
