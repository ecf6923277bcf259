// SPDX-License-Identifier: Apache-2.0
//
// The numbers and texts that mischief draws from: right, wrong and extreme values. Constants; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/redlock/ballot/messages.h"

namespace distlock::sim {

inline constexpr int64_t kTtlMs[] = {15'000, 15'000, 1'000, 15'000, 40, 3'600'000, 15'000, 1, 2'147'483'647};
inline constexpr int64_t kDelayMs[] = {0, 0, 0, 5, 0, 60'000, 0, 0, 2'147'483'647};
inline constexpr int64_t kLateByUs[] = {-1'000'000, -1, 0, 1, 1'000, 10'000'000};
inline constexpr std::string_view kInfos[] = {"", "info", "a;b;c", std::string_view("\0\xff\r\n", 4)};
inline constexpr int64_t kStepsUs[] = {1,          999,         1'000,         5'000,         50'000,  1'000'000,
                                       15'000'000, 30'000'000,  20'000,        700'000,       100'000, 4'000'000,
                                       -1'000,     -10'000'000, 3'600'000'000, 90'000'000'000};
inline constexpr int64_t kBlockMs[] = {0, 0, 0, 1, 5'000};
// Places at one of several servers, and marks from a first to a last one.
inline constexpr int64_t kPlaces[] = {1'000, 2'000, 3, -(int64_t{1} << 52) + 5, 2'000};
inline constexpr store::ballot::Marks kMarks[] = {{0, 0}, {1'000, 2'000}, {3, 3}, {1, 3'000}};

inline constexpr std::string_view kBadWords[] = {"",     "x",   "-1",  "0",   "1e3",
                                                 "0x10", "1.5", "inf", "nan", "99999999999999999999"};

inline constexpr std::string_view kStrings[] = {"",
                                                "junk",
                                                "0",
                                                "123",
                                                "-5",
                                                "9007199254740989",
                                                "9007199254740990",
                                                "9007199254740991",
                                                "99999999999999999999",
                                                "1;short;1;1;1;1;",
                                                "1;00000000000000000000000000000000;5;6;7;0;",
                                                "1;0000000000000000000000000000000f;12345678901234567;6;7;0;",
                                                "1;0000000000000000000000000000000f;9007199254740991;6;7;0;x",
                                                "2;0000000000000000000000000000000f;5;6;7;0;"};
inline constexpr std::string_view kFields[] = {"junk", "holders", "00000000000000000000000000000001"};
inline constexpr std::string_view kValues[] = {"junk", "s;0;1;1", "p;3;2;99999999999999",
                                               "99999999999999999;5;5;100;0;1;i", "1;5;5;100;0;1;"};
inline constexpr std::string_view kScores[] = {"0", "-3", "1.5", "5", "1000", "9007199254740992", "inf", "-inf"};
inline constexpr std::string_view kEntryEnds[] = {";15000;0;x;1;info",
                                                  ";0;0;x;1;",
                                                  ";5;2147483640;s;5;",
                                                  ";5;2147483642;p1/3;5;",
                                                  ";x;0;",
                                                  ";99999999999;0;x;1;",
                                                  ";7;7;p2/3a;9;",
                                                  ";15000;0;x;1795;i",
                                                  ";7;7;q;9;",
                                                  ";7;7;xa;9;",
                                                  "",
                                                  ";15000;0;s;1;i"};
inline constexpr std::string_view kPatterns[] = {"*",      "dl:{default/*}:h", "dl:{n/a%7B*}:h", "dl:*k}:h", "dl:{?/*",
                                                 "*[htq]", "*[^a-s]",          "*[z-q]",         "dl:\\{*",  "*:[",
                                                 "**"};
inline constexpr std::string_view kExpiries[] = {"0", "-5", "1", "3", "70000", "x"};

inline constexpr std::string_view kSnippets[] = {
    "return {1.9, 'a', {true, false, nil, 4}, -1.9}",
    "return redis.call('MGET', KEYS[1], KEYS[2])",
    "return redis.pcall('ZCARD', KEYS[1])",
    "return redis.call('ZCARD', KEYS[1])",
    "local x\nreturn x.y",
    "error('mine')",
    "error({err = 'MINE own'})",
    "return {err = 'MINE own'}",
    "return {ok = 'FINE'}",
    "return undefined",
    "undefined = 1",
    "string.x = 1",
    "return )",
    "return redis.call('NOPE')",
    "return redis.call('GET')",
    "return redis.call('SUBSCRIBE', 'x')",
    "return redis.call()",
    "return redis.pcall('GET', {})",
    "redis.call('SET', KEYS[1], 0.5) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 2^53) return redis.call('GET', KEYS[1])",
    "redis.call('DEL', 'none') return redis.pcall('SET', KEYS[1], 'v', 'PX', 7)",
    "return redis.pcall('SET', KEYS[1], 'v', 'PX', ARGV[1])",
    "return redis.call('SET', KEYS[1], 'v', 'PX', '0')",
    "redis.call('SET', KEYS[1], 'v') redis.call('HLEN', KEYS[1])",
    "local t = {} for i, v in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')) do t[i] = v end return t",
    "return {type(redis.call('TIME')[1]), redis.call('EXISTS', KEYS[1], KEYS[1]), redis.call('PTTL', KEYS[2])}",
    "return redis.call('PEXPIRE', KEYS[1], -1)",
    "return tostring(1795222991939244) .. string.format('%.0f', 1795222991939244)",
    "local ok, e = pcall(redis.call, 'HLEN', KEYS[3]) return {ok and 1 or 0, type(e), type(e) == 'table' and e.err}",
};

}  // namespace distlock::sim
