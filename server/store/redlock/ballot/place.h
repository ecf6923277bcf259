// SPDX-License-Identifier: Apache-2.0
//
// A holder's place and broker, which the servers keep in front of what the holder says of itself. Pure.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "store/redlock/ballot/messages.h"

namespace distlock::store::ballot {

// The mark of what is asked for, "p<place>;<broker_id>;", and the info.
inline std::string WithMark(Place place, std::string_view broker_id, std::string_view info) {
  std::string text = "p" + std::to_string(place) + ";";
  text.append(broker_id).append(";").append(info);
  return text;
}

// Takes the mark off the info and returns its place. kFirstPlace: there is none.
inline Place TakePlace(std::string& info) {
  Place place = kFirstPlace;
  const size_t end = info.find(';');
  if (!info.starts_with('p') || end == std::string::npos) return kFirstPlace;
  const auto read = std::from_chars(info.data() + 1, info.data() + end, place);
  const size_t end_of_broker = info.find(';', end + 1);
  if (read.ec != std::errc() || read.ptr != info.data() + end || end_of_broker == std::string::npos) return kFirstPlace;
  info.erase(0, end_of_broker + 1);
  return place;
}

}  // namespace distlock::store::ballot
