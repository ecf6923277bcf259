// SPDX-License-Identifier: Apache-2.0
//
// A holder's place and mark, which the servers keep in front of what the holder says of itself. Pure.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "store/redlock/ballot/messages.h"

namespace distlock::store::ballot {

// A request for votes, as an info begins with it.
struct Asked {
  Place place = kFirstPlace;  // kFirstPlace: the info shows none
  uint64_t mark = 0;
};

// "p<place>;<broker_id>.<mark>;" and the info.
inline std::string WithMark(const Asked& asked, std::string_view broker_id, std::string_view info) {
  std::string text = "p" + std::to_string(asked.place) + ";";
  text.append(broker_id).append(".").append(std::to_string(asked.mark)).append(";").append(info);
  return text;
}

// Takes place and mark off the info.
inline Asked TakeMark(std::string& info) {
  Asked asked;
  const size_t broker = info.find(';') + 1;  // 0: there is none
  const size_t number = info.find('.', broker) + 1;
  const size_t end = info.find(';', number);
  if (!info.starts_with('p') || broker == 0 || number == 0 || end == std::string::npos) return {};
  const char* const text = info.data();
  const auto place = std::from_chars(text + 1, text + broker - 1, asked.place);
  const auto mark = std::from_chars(text + number, text + end, asked.mark);
  if (place.ec != std::errc() || place.ptr != text + broker - 1) return {};
  if (mark.ec != std::errc() || mark.ptr != text + end) return {};
  info.erase(0, end + 1);
  return asked;
}

}  // namespace distlock::store::ballot
