// SPDX-License-Identifier: Apache-2.0
//
// A holder's place, which the servers keep in front of what the holder says of itself. Pure.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "store/redlock/ballot/messages.h"

namespace distlock::store::ballot {

// "p<place>;" and the info.
inline std::string WithPlace(Place place, std::string_view info) {
  std::string text = "p" + std::to_string(place) + ";";
  text += info;
  return text;
}

// Takes the place off the info. kFirstPlace: there is none.
inline Place TakePlace(std::string& info) {
  Place place = kFirstPlace;
  const size_t end = info.find(';');
  if (!info.starts_with('p') || end == std::string::npos) return kFirstPlace;
  const auto read = std::from_chars(info.data() + 1, info.data() + end, place);
  if (read.ec != std::errc() || read.ptr != info.data() + end) return kFirstPlace;
  info.erase(0, end + 1);
  return place;
}

}  // namespace distlock::store::ballot
