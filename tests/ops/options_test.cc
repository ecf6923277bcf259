// SPDX-License-Identifier: Apache-2.0
//
// The option table: consistent rows, a --help that lists all options, a --print-config that can be read back, and
// checks between options.
#include "ops/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "ops/option_table.h"

namespace distlock::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Strings = std::vector<std::string>;

std::string Problem(const Strings& args) {
  const absl::StatusOr<Invocation> invocation = ParseOptions(args, {});
  if (invocation.ok()) return "";
  EXPECT_EQ(ExitCode(invocation.status()), 78);
  return std::string(invocation.status().message());
}

TEST(OptionTable, RowsAreNamedOnceExplainedAndHoldTheirOwnDefault) {
  std::set<std::string_view> names;
  for (const OptionRow& row : OptionTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.help.empty()) << row.name;
    Options options;
    EXPECT_TRUE(SetOption(row, {std::string(row.fallback)}, &options).ok()) << row.name;
    if (row.places == OptionPlaces::kNowhereElse || row.name == kLimitsOption) continue;
    EXPECT_EQ(OptionValues(row, options), OptionValues(row, DefaultOptions())) << row.name;
  }
}

TEST(OptionTable, BothEndsOfARangeAreAllowed) {
  for (const OptionRow& row : OptionTable()) {
    const size_t dots = row.allowed.find("..");
    if (dots == row.allowed.npos) continue;
    Options options;
    EXPECT_TRUE(SetOption(row, {std::string(row.allowed.substr(0, dots))}, &options).ok()) << row.name;
    EXPECT_TRUE(SetOption(row, {std::string(row.allowed.substr(dots + 2))}, &options).ok()) << row.name;
  }
}

TEST(OptionTable, EveryChoiceSurvivesTheRoundTrip) {
  for (const char* level : {"debug", "info", "warn", "error"}) {
    const absl::StatusOr<Invocation> invocation = ParseOptions({"--log-level", level}, {});
    ASSERT_TRUE(invocation.ok());
    EXPECT_THAT(ConfigText(invocation->options), HasSubstr(std::string("log-level: ") + level));
  }
}

TEST(OptionText, HelpListsEveryOptionWithItsVariableRangeAndDefault) {
  const std::string help = HelpOfAll();
  for (const std::string_view name : OptionNames()) {
    const OptionRow& row = *FindOption(name);
    EXPECT_THAT(help, HasSubstr((IsLimit(row) ? "\n    " : "\n  --") + std::string(name)));
    const bool has_variable = HasVariable(row);
    EXPECT_EQ(help.find(" " + VariableName(name) + "\n") != help.npos, has_variable) << name;
    EXPECT_THAT(help, HasSubstr(std::string(row.allowed)));
  }
  EXPECT_THAT(help, HasSubstr("--limits NAME=VALUE"));
  EXPECT_THAT(help, HasSubstr("[default 127.0.0.1:9420]"));
  std::string line;
  for (std::stringstream lines(help); std::getline(lines, line);) EXPECT_LE(line.size(), 110u) << line;
}

TEST(OptionText, HelpShowsWhatMostBrokersNeedAndNamesTheRest) {
  const std::string help = HelpText();
  size_t shown = 0;
  for (const OptionRow& row : OptionTable()) {
    const bool is_shown = help.find("\n  --" + std::string(row.name) + "\n") != help.npos ||
                          help.find("\n  --" + std::string(row.name) + " ") != help.npos;
    EXPECT_EQ(is_shown, IsBasic(row)) << row.name;
    shown += is_shown && row.places != OptionPlaces::kNowhereElse;
  }
  EXPECT_EQ(shown, 26);
  const size_t limits = help.find("--limits NAME=VALUE");
  ASSERT_NE(limits, help.npos);
  EXPECT_THAT(help.substr(limits, help.find("\n  --", limits) - limits), HasSubstr("--help-all"));
}

TEST(OptionText, PrintedConfigurationIsReadBackUnchanged) {
  const Strings args = {"--listen=unix:///a/b",
                        "--listen=127.0.0.1:0",
                        "--validity=1500ms",
                        "--http=",
                        "--reflection=on",
                        "--insecure-listen",
                        "--limits=renew-fraction=0.25",
                        "--key-prefix=true",
                        "--log-format=json"};
  const absl::StatusOr<Invocation> first = ParseOptions(args, {});
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string text = ConfigText(first->options);

  std::string path = std::filesystem::temp_directory_path() / "options_test.XXXXXX";
  close(mkstemp(path.data()));
  std::ofstream(path) << text;
  const absl::StatusOr<Invocation> second = ParseOptions({"--config", path}, {});
  std::filesystem::remove(path);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ConfigText(second->options), text);
  EXPECT_EQ(second->options.validity, absl::Milliseconds(1500));
  EXPECT_EQ(second->options.key_prefix, "true");
  EXPECT_EQ(second->options.http, "");
  EXPECT_THAT(second->options.listen, ElementsAre("unix:///a/b", "127.0.0.1:0"));
}

TEST(OptionText, PrintedConfigurationHoldsNoPassword) {
  const absl::StatusOr<Invocation> invocation =
      ParseOptions({"--redis=rediss://app:s3cret@cache:6379/0", "--redis-password-file=/run/pw"}, {});
  ASSERT_TRUE(invocation.ok());
  const std::string text = ConfigText(invocation->options);
  EXPECT_THAT(text, Not(HasSubstr("s3cret")));
  EXPECT_THAT(text, HasSubstr("rediss://app:***@cache:6379/0"));
  EXPECT_THAT(text, HasSubstr("redis-password-file: /run/pw"));
  EXPECT_EQ(invocation->options.redis, "rediss://app:s3cret@cache:6379/0");
}

TEST(OptionChecks, PlainTextBeyondLoopbackNeedsInsecureListen) {
  for (const char* address : {"0.0.0.0:7420", "[::]:7420", "10.0.0.1:7420", "127.evil.example:7420", "host:7420"}) {
    EXPECT_THAT(Problem({std::string("--listen=") + address}), HasSubstr("--insecure-listen")) << address;
  }
  for (const char* address : {"127.0.0.1:7420", "127.9.9.9:0", "[::1]:7420", "localhost:0", "unix:///x"}) {
    EXPECT_EQ(Problem({std::string("--listen=") + address}), "");
  }
  const absl::StatusOr<Invocation> wanted = ParseOptions({"--listen=0.0.0.0:7420", "--insecure-listen"}, {});
  ASSERT_TRUE(wanted.ok());
  EXPECT_THAT(wanted->warnings, ElementsAre(HasSubstr("plain text")));
}

TEST(OptionChecks, StrangersComeFromOtherMachines) {
  const auto open = [](const Strings& args) {
    const absl::StatusOr<Invocation> read = ParseOptions(args, {});
    EXPECT_TRUE(read.ok()) << read.status();
    return read->options.OpenToStrangers();
  };
  EXPECT_THAT(open({"--listen=127.0.0.1:1", "--listen=[::1]:1", "--listen=localhost:1", "--listen=unix:///x"}),
              IsEmpty());
  EXPECT_THAT(open({"--insecure-listen", "--listen=0.0.0.0:1", "--listen=unix:///x", "--admin-listen=[::]:2"}),
              ElementsAre("0.0.0.0:1", "[::]:2"));
}

TEST(OptionChecks, OperatorsAreServedWhereThePageSays) {
  const auto served = [](Strings args, const std::string& address) {
    args.insert(args.end(), {"--listen=unix:///x", "--listen=127.0.0.1:1"});
    const absl::StatusOr<Invocation> read = ParseOptions(args, {});
    EXPECT_TRUE(read.ok()) << read.status();
    return read->options.IsForOperators(address);
  };
  EXPECT_TRUE(served({}, "unix:///x"));
  EXPECT_FALSE(served({}, "127.0.0.1:1"));
  EXPECT_TRUE(served({"--policy=p"}, "127.0.0.1:1"));
  EXPECT_FALSE(served({"--policy=p", "--allow-all"}, "127.0.0.1:1"));
  EXPECT_FALSE(served({"--policy=p", "--admin-listen=unix:///x"}, "127.0.0.1:1"));
  EXPECT_TRUE(served({"--admin-listen=127.0.0.1:1"}, "127.0.0.1:1"));
  EXPECT_FALSE(served({"--admin-listen=127.0.0.1:1"}, "unix:///x"));
}

TEST(OptionChecks, OptionsMustFitTogether) {
  EXPECT_EQ(Problem({"--validity=20s"}), "--validity: 20s must be less than --default-ttl, which is 15s");
  EXPECT_EQ(Problem({"--default-ttl=2h"}), "--default-ttl: 2h is outside of limit min-ttl..--max-ttl, which is 1s..1h");
  EXPECT_EQ(Problem({"--limits=min-ttl=1m", "--max-ttl=30s"}),
            "limit min-ttl: 1m is more than --max-ttl, which is 30s");
  EXPECT_THAT(Problem({"--redis-password-file=/x"}), HasSubstr("needs --redis"));
  EXPECT_THAT(Problem({"--redis-user=x"}), HasSubstr("needs --redis"));
  EXPECT_THAT(Problem({"--redis=redis://x", "--embedded-dir=/x"}), HasSubstr("no effect with --redis"));
  EXPECT_THAT(Problem({"--redis=redis://x", "--embedded-server=/x"}), HasSubstr("no effect with --redis"));
  EXPECT_THAT(Problem({"--listen=unix:///x", "--listen=unix:///x"}), HasSubstr("given twice"));
  EXPECT_EQ(ExitCode(ParseOptions({}, {"DISTLOCK_LISTEN="}).status()), 78);
}

TEST(OptionChecks, TheLongestTtlAtOneAddressDependsOnWhatTheServerIs) {
  const auto ttls = [](const std::vector<std::string>& args) {
    const Options options = ParseOptions(args, {})->options;
    return std::pair(options.LongestTtl(), options.LongestTtlIfReplicated());
  };
  EXPECT_EQ(ttls({"--redis=redis://x"}), std::pair(absl::Hours(1), absl::Seconds(30)));
  EXPECT_EQ(ttls({"--redis=redis://x", "--max-ttl=10m"}), std::pair(absl::Minutes(10), absl::ZeroDuration()));
  EXPECT_EQ(ttls({"--redis=redlock://x,y,z"}), std::pair(absl::Seconds(30), absl::ZeroDuration()));
}

TEST(OptionChecks, StreamsOfAConnectionStayAboveSessionsOfAPeer) {
  EXPECT_EQ(DefaultOptions().ConnectionStreams(), 2000);
  const absl::StatusOr<Invocation> few = ParseOptions({"--limits=max-connection-streams=1000"}, {});
  ASSERT_TRUE(few.ok());
  EXPECT_EQ(few->options.ConnectionStreams(), 1000);
  EXPECT_THAT(few->warnings, ElementsAre(HasSubstr("hang instead of being refused")));
  EXPECT_THAT(ParseOptions({"--limits=max-connection-streams=1001"}, {})->warnings, IsEmpty());
}

TEST(OptionChecks, TlsFilesGoTogether) {
  const auto with = [](Strings more) {
    more.insert(more.end(), {"--listen=0.0.0.0:1", "--tls-cert=/c", "--tls-key=/k", "--allow-all"});
    return ParseOptions(more, {});
  };
  const auto plain = with({});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->options.ClientAuth(), TlsClientAuth::kOff);
  EXPECT_THAT(plain->warnings, ElementsAre(HasSubstr("--allow-all")));
  EXPECT_THAT(plain->options.OpenToStrangers(), ElementsAre("0.0.0.0:1"));
  const auto mutual = with({"--tls-client-ca=/ca"});
  ASSERT_TRUE(mutual.ok());
  EXPECT_EQ(mutual->options.ClientAuth(), TlsClientAuth::kRequire);
  EXPECT_THAT(mutual->options.OpenToStrangers(), IsEmpty());
  EXPECT_THAT(with({"--tls-client-ca=/ca", "--tls-client-auth=optional"})->options.OpenToStrangers(),
              ElementsAre("0.0.0.0:1"));
  EXPECT_THAT(mutual->warnings, ElementsAre(HasSubstr("--allow-all")));
  EXPECT_THAT(std::string(with({"--tls-client-auth=require"}).status().message()), HasSubstr("needs --tls-client-ca"));
  EXPECT_THAT(std::string(with({"--tls-client-ca=/ca", "--tls-client-auth=off"}).status().message()),
              HasSubstr("no effect with --tls-client-auth off"));
  const Strings tcp = {"--listen=127.0.0.1:1", "--tls-cert=/c"};
  EXPECT_THAT(Problem(tcp), HasSubstr("--tls-cert needs --tls-key"));
  EXPECT_THAT(Problem({tcp[0], tcp[1], "--tls-key=/k"}), HasSubstr("--tls-cert needs --policy FILE"));
  EXPECT_THAT(Problem({tcp[0], tcp[1], "--tls-key=/k", "--policy=/p", "--listen=0.0.0.0:1"}), "");
  EXPECT_THAT(Problem({tcp[1], "--tls-key=/k", "--allow-all"}), HasSubstr("no --listen is host:port"));
  EXPECT_THAT(Problem({"--tls-key=/k"}), HasSubstr("--tls-key needs --tls-cert"));
  EXPECT_THAT(Problem({"--tls-client-auth=off"}), HasSubstr("no effect without --tls-cert"));
}

TEST(OptionChecks, ASocketForEverybodyIsWarnedOf) {
  EXPECT_THAT(ParseOptions({"--listen=unix:///x?mode=0660&group=g"}, {})->warnings, IsEmpty());
  EXPECT_THAT(ParseOptions({"--listen=unix:///x?mode=0666"}, {})->warnings, ElementsAre(HasSubstr("every user")));
  EXPECT_THAT(std::string(ParseOptions({"--listen=unix:///x?mode=9"}, {}).status().message()), HasSubstr("mode=9"));
}

TEST(OptionChecks, NamespacesWithMetricsOfTheirOwnDifferAndAreFew) {
  const auto message = [](const Strings& args) { return std::string(ParseOptions(args, {}).status().message()); };
  EXPECT_EQ(message({"--metrics-namespace=a", "--metrics-namespace=b"}), "");
  EXPECT_THAT(message({"--metrics-namespace=a", "--metrics-namespace=a"}), HasSubstr("'a' twice"));
  EXPECT_THAT(message({"--metrics-namespace=" + std::string(65, 'n')}), HasSubstr("1 to 64 bytes"));
  Strings many;
  for (char name = 'a'; name < 'a' + 21; ++name) many.push_back(std::string("--metrics-namespace=") + name);
  EXPECT_THAT(message(many), HasSubstr("at most 20"));
}

TEST(OptionChecks, ReflectionIsOnByDefaultOnlyOnUnixSockets) {
  const auto enabled = [](const Strings& args) { return ParseOptions(args, {})->options.ReflectionEnabled(); };
  EXPECT_TRUE(enabled({}));
  EXPECT_FALSE(enabled({"--listen=unix:///x", "--listen=127.0.0.1:0"}));
  EXPECT_TRUE(enabled({"--listen=127.0.0.1:0", "--reflection=on"}));
  EXPECT_FALSE(enabled({"--reflection=off"}));
}

}  // namespace
}  // namespace distlock::ops
