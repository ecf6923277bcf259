// SPDX-License-Identifier: Apache-2.0
//
// The sources of options: command line, variables, file; their precedence; the messages for wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ops/options.h"

namespace distlock::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Strings = std::vector<std::string>;

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& content) {
    std::string name = std::filesystem::temp_directory_path() / "ops_test.XXXXXX";
    close(mkstemp(name.data()));
    path_ = name;
    std::ofstream(path_) << content;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Options Parsed(const Strings& args, const Strings& environment = {}) {
  const absl::StatusOr<Invocation> invocation = ParseOptions(args, environment);
  EXPECT_TRUE(invocation.ok()) << invocation.status();
  return invocation.ok() ? invocation->options : Options{};
}

Options FromFile(const std::string& yaml, Strings args = {}, const Strings& environment = {}) {
  const ConfigFile file(yaml);
  args.insert(args.begin(), {"--config", file.path()});
  return Parsed(args, environment);
}

struct Failure {
  std::string message;
  int exit_code;
};

Failure Failed(const Strings& args, const Strings& environment = {}) {
  const absl::StatusOr<Invocation> invocation = ParseOptions(args, environment);
  EXPECT_FALSE(invocation.ok());
  const std::string message(invocation.status().message());
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return {message, ExitCode(invocation.status())};
}

Failure FileFailed(const std::string& yaml) {
  const ConfigFile file(yaml);
  return Failed({"--config", file.path()});
}

Strings Warnings(const Strings& environment) {
  const absl::StatusOr<Invocation> invocation = ParseOptions({}, environment);
  EXPECT_TRUE(invocation.ok()) << invocation.status();
  return invocation->warnings;
}

TEST(OptionSources, NothingSetGivesTheDefaults) {
  const Options o = Parsed({});
  EXPECT_THAT(o.listen, ElementsAre("unix:///run/distlock/distlock.sock"));
  EXPECT_EQ(o.http, "127.0.0.1:9420");
  EXPECT_EQ(o.validity, absl::Seconds(3));
  EXPECT_EQ(o.max_wait, absl::Hours(24));
  EXPECT_EQ(o.clock_drift, 500);
  EXPECT_EQ(o.max_leases_per_session, 10000);
  EXPECT_DOUBLE_EQ(o.renew_fraction, 0.333);
  EXPECT_FALSE(o.wait_for_store);
  EXPECT_EQ(o.log_level, LogLevel::kInfo);
  EXPECT_EQ(o.reflection, AutoOnOff::kAuto);
}

TEST(OptionSources, FlagsInBothSpellings) {
  const Options o = Parsed({"--validity", "2s", "--shards=4", "--http=", "--log-format", "json", "--wait-for-store",
                            "--limits=renew-fraction=0.25", "--reflection=off"});
  EXPECT_EQ(o.validity, absl::Seconds(2));
  EXPECT_EQ(o.shards, 4);
  EXPECT_EQ(o.http, "");
  EXPECT_EQ(o.log_format, LogFormat::kJson);
  EXPECT_TRUE(o.wait_for_store);
  EXPECT_DOUBLE_EQ(o.renew_fraction, 0.25);
  EXPECT_EQ(o.reflection, AutoOnOff::kOff);
}

TEST(OptionSources, SwitchesTakeAValueOnlyAfterAnEqualsSign) {
  EXPECT_FALSE(Parsed({"--wait-for-store", "--wait-for-store=false"}).wait_for_store);
  EXPECT_THAT(Failed({"--wait-for-store", "false"}).message, HasSubstr("\"false\" is not an option"));
}

TEST(OptionSources, TheLastOfTwoFlagsCountsAndListsGrow) {
  EXPECT_EQ(Parsed({"--shards=2", "--shards=3"}).shards, 3);
  EXPECT_THAT(Parsed({"--listen=unix:///a/b", "--listen", "127.0.0.1:0"}).listen,
              ElementsAre("unix:///a/b", "127.0.0.1:0"));
}

TEST(OptionSources, VariablesAreNamedAfterTheFlags) {
  const Options o = Parsed({}, {"DISTLOCK_LIMITS=max-sessions-per-peer=7,max-wait=1h", "DISTLOCK_WAIT_FOR_STORE=true",
                                "PATH=/bin", "DISTLOCK_LISTEN=unix:///a/b,[::1]:7420"});
  EXPECT_EQ(o.max_sessions_per_peer, 7);
  EXPECT_EQ(o.max_wait, absl::Hours(1));
  EXPECT_TRUE(o.wait_for_store);
  EXPECT_THAT(o.listen, ElementsAre("unix:///a/b", "[::1]:7420"));
}

TEST(OptionSources, FileTakesScalarsAndLists) {
  const Options o = FromFile(
      "listen: [unix:///a/b, '127.0.0.1:0']\nvalidity: 1s\nwait-for-store: true\nhttp: \"\"\n"
      "reflection: on\nshards: 2\nmax-ttl: 2h\n");
  EXPECT_THAT(o.listen, ElementsAre("unix:///a/b", "127.0.0.1:0"));
  EXPECT_EQ(o.validity, absl::Seconds(1));
  EXPECT_TRUE(o.wait_for_store);
  EXPECT_EQ(o.http, "");
  EXPECT_EQ(o.reflection, AutoOnOff::kOn);
  EXPECT_EQ(o.shards, 2);
  EXPECT_THAT(FromFile("listen: unix:///c\n").listen, ElementsAre("unix:///c"));
  EXPECT_EQ(FromFile("").shards, 1);
}

TEST(OptionSources, FlagBeatsVariableBeatsFileBeatsDefault) {
  const std::string file = "shards: 2\nlisten: unix:///file\n";
  EXPECT_EQ(FromFile(file).shards, 2);
  EXPECT_EQ(FromFile(file, {}, {"DISTLOCK_SHARDS=3"}).shards, 3);
  EXPECT_EQ(FromFile(file, {"--shards=4"}, {"DISTLOCK_SHARDS=3"}).shards, 4);
  EXPECT_THAT(FromFile(file, {}, {"DISTLOCK_LISTEN=unix:///env"}).listen, ElementsAre("unix:///env"));
  EXPECT_THAT(FromFile(file, {"--listen=unix:///flag"}, {"DISTLOCK_LISTEN=unix:///env"}).listen,
              ElementsAre("unix:///flag"));
}

TEST(OptionSources, TheFileMayBeNamedByAVariable) {
  const ConfigFile file("shards: 5\n");
  EXPECT_EQ(Parsed({}, {"DISTLOCK_CONFIG=" + file.path()}).shards, 5);
}

TEST(OptionSources, WrongFlagsExit64AndNameThemselves) {
  const auto message = [](const Strings& args) {
    const Failure failure = Failed(args);
    EXPECT_EQ(failure.exit_code, 64) << failure.message;
    return failure.message;
  };
  EXPECT_EQ(message({"--validity=40s"}), "--validity: \"40s\" is out of range: allowed is 500ms..30s");
  EXPECT_EQ(message({"--validity", "3"}),
            "--validity: \"3\" is not a duration such as 500ms, 15s or 1h: allowed is 500ms..30s");
  EXPECT_EQ(message({"--validity=inf"}), "--validity: \"inf\" is out of range: allowed is 500ms..30s");
  EXPECT_EQ(message({"--shards=0"}), "--shards: \"0\" is out of range: allowed is 1..64");
  EXPECT_EQ(message({"--shards=2x"}), "--shards: \"2x\" is not a whole number: allowed is 1..64");
  EXPECT_EQ(message({"--shards="}), "--shards: \"\" is not a whole number: allowed is 1..64");
  EXPECT_EQ(message({"--shards=99999999999999999999"}),
            "--shards: \"99999999999999999999\" is not a whole number: allowed is 1..64");
  EXPECT_EQ(message({"--limits=renew-fraction=nan"}),
            "--limits: renew-fraction: \"nan\" is not a number: allowed is 0.1..0.5");
  EXPECT_EQ(message({"--limits=max-sessions"}), "--limits: max-sessions needs a value: write max-sessions=VALUE");
  EXPECT_EQ(message({"--limits=max-session=1"}),
            "--limits: max-session is no limit; did you mean the limit max-sessions? distlockd --help-all lists all");
  EXPECT_EQ(message({"--limits=shards=1"}), "--limits: shards is no limit; distlockd --help-all lists all");
  EXPECT_EQ(message({"--limits", "3"}), "--limits: 3 is no limit; distlockd --help-all lists all");
  EXPECT_EQ(message({"--max-sessions=5"}), "--max-sessions: is a limit: write --limits max-sessions=VALUE");
  EXPECT_EQ(message({"--max-session=5"}),
            "--max-session: unknown option; did you mean the limit max-sessions? distlockd --help-all lists all");
  EXPECT_EQ(message({"--limits"}), "--limits needs a value: write NAME=VALUE; distlockd --help-all lists all");
  EXPECT_EQ(message({"--log-level=loud"}), "--log-level: \"loud\" is unknown: allowed is debug|info|warn|error");
  EXPECT_EQ(message({"--wait-for-store=maybe"}), "--wait-for-store: \"maybe\" is neither true nor false");
  EXPECT_EQ(message({"--validty=3s"}), "--validty: unknown option; did you mean --validity?");
  EXPECT_EQ(message({"--frobnicate"}), "--frobnicate: unknown option; distlockd --help-all lists all");
  EXPECT_EQ(message({"--shards"}), "--shards needs a value: allowed is 1..64");
  EXPECT_EQ(message({"--redis", "--wait-for-store"}), "--redis needs a value");
  EXPECT_EQ(message({"--redis-password=x"}), "--redis-password: unknown option; did you mean --redis-password-file?");
  EXPECT_EQ(message({"--help=yes"}), "--help takes no value");
  EXPECT_EQ(message({"--a\nb"}), "--\"a\\nb\": unknown option; distlockd --help-all lists all");
  EXPECT_THAT(message({"serve"}), HasSubstr("\"serve\" is not an option"));
  EXPECT_THAT(message({"--"}), HasSubstr("\"--\" is not an option"));
  EXPECT_THAT(message({""}), HasSubstr("\"\" is not an option"));
}

TEST(OptionSources, AUrlInTheWrongPlaceDoesNotShowItsPassword) {
  const std::vector<std::vector<std::string>> command_lines = {
      {"redis://u:hush@h"}, {"--redis://u:hush@h"}, {"--http", "redis://u:hush@h"}, {"--shards=redis://u:hush@h"}};
  for (const auto& args : command_lines) {
    const std::string message = Failed(args).message;
    EXPECT_THAT(message, HasSubstr("redis://u:***@h"));
    EXPECT_THAT(message, Not(HasSubstr("hush")));
  }
}

TEST(OptionSources, TextThatCannotBeShownIsRefused) {
  for (const std::string value : {"a\rb", "a\x80z", "a\xf2\xf2"}) {
    EXPECT_THAT(Failed({"--redis-user=" + value}).message, HasSubstr("not UTF-8"));
  }
}

TEST(OptionSources, WrongAddressesSayWhy) {
  const auto message = [](const std::string& value) { return Failed({"--listen=" + value}).message; };
  EXPECT_THAT(message("unix:run/x.sock"), HasSubstr("is not an absolute path"));
  EXPECT_THAT(message("unix:///run/a.sock redis://u:p@h"), HasSubstr("give each address by itself"));
  EXPECT_THAT(message("unix:///" + std::string(200, 'a')), HasSubstr("at most 107"));
  EXPECT_THAT(message("localhost"), HasSubstr("has no port"));
  EXPECT_THAT(message("localhost:65536"), HasSubstr("0..65535"));
  EXPECT_THAT(message("localhost:+1"), HasSubstr("0..65535"));
  EXPECT_THAT(message(":7420"), HasSubstr("has no host"));
  EXPECT_THAT(message("::1:7420"), HasSubstr("is not an address"));
  EXPECT_THAT(message("[]:7420"), HasSubstr("is not an address"));
  EXPECT_THAT(Failed({"--http=9420"}).message, HasSubstr("--http: \"9420\" has no port"));
  EXPECT_THAT(Failed({"--listen=off"}).message, HasSubstr("has no port"));
  EXPECT_THAT(Failed({"--key-prefix=a{b"}).message, HasSubstr("no { or }"));
  EXPECT_THAT(Failed({"--key-prefix="}).message, HasSubstr("1..64 bytes"));
}

TEST(OptionSources, OffServesNoHttpAsEmptyDoes) {
  const Options flags = Parsed({"--http", "off", "--http-api=off"});
  EXPECT_EQ(flags.http + flags.http_api, "");
  const Options variables = Parsed({}, {"DISTLOCK_HTTP=off", "DISTLOCK_HTTP_API=off"});
  EXPECT_EQ(variables.http + variables.http_api, "");
}

TEST(OptionSources, WrongVariablesExit78) {
  const Failure failure = Failed({}, {"DISTLOCK_SHARDS=many"});
  EXPECT_EQ(failure.message, "DISTLOCK_SHARDS: \"many\" is not a whole number: allowed is 1..64");
  EXPECT_EQ(failure.exit_code, 78);
  EXPECT_EQ(Failed({}, {"DISTLOCK_LIMITS=max-wait=1h,many=1"}).exit_code, 78);
  EXPECT_EQ(Failed({}, {"DISTLOCK_LIMITS=max-wait=0s"}).message,
            "DISTLOCK_LIMITS: max-wait: \"0s\" is out of range: allowed is 1s..720h");
}

TEST(OptionSources, AVariableOfALimitIsIgnoredWithAWarning) {
  const absl::StatusOr<Invocation> invocation = ParseOptions({}, {"DISTLOCK_MAX_SESSIONS=5"});
  ASSERT_TRUE(invocation.ok());
  EXPECT_THAT(invocation->warnings, ElementsAre(HasSubstr("write max-sessions=VALUE into DISTLOCK_LIMITS")));
}

TEST(OptionSources, LimitsAreAMapOfTheFileAndEachIsOverriddenAlone) {
  const std::string file = "limits:\n  max-wait: 1h\n  max-sessions: 5\nshards: 2\n";
  EXPECT_EQ(FromFile(file).max_wait, absl::Hours(1));
  const Options o =
      FromFile(file, {"--limits=max-sessions=6", "--limits", "max-sessions=7"}, {"DISTLOCK_LIMITS=max-wait=2h"});
  EXPECT_EQ(o.max_wait, absl::Hours(2));
  EXPECT_EQ(o.max_sessions, 7);
  EXPECT_EQ(o.shards, 2);
  const auto message = [](const std::string& yaml) { return FileFailed(yaml).message; };
  EXPECT_THAT(message("limits: 5\n"), HasSubstr("must be a map from the names of limits to values"));
  EXPECT_THAT(message("limits:\n  shards: 5\n"), HasSubstr(":2: shards: is no limit: write it beside limits"));
  EXPECT_THAT(message("max-wait: 1h\n"), HasSubstr(":1: max-wait: is a limit: write it into the map limits"));
  EXPECT_THAT(message("limits:\n  max-wait: 1h\n  max-wait: 2h\n"), HasSubstr(":3: max-wait: is set twice"));
  EXPECT_THAT(message("limits:\n  max-wiat: 1h\n"), HasSubstr("is an unknown limit; did you mean"));
}

TEST(OptionSources, WrongFilesExit78AndNameTheLine) {
  const auto message = [](const std::string& yaml) {
    const Failure failure = FileFailed(yaml);
    EXPECT_EQ(failure.exit_code, 78) << failure.message;
    return failure.message;
  };
  EXPECT_THAT(message("shards: 1\nvalidity: 1m\n"),
              HasSubstr(":2: validity: \"1m\" is out of range: allowed is 500ms"));
  EXPECT_THAT(message("shrads: 1\n"), HasSubstr(":1:1: this name is an unknown option; did you mean shards?"));
  EXPECT_THAT(message("shards: 1\nshards: 2\n"), HasSubstr(":2: shards: is set twice"));
  EXPECT_THAT(message("shards: [1, 2]\n"), HasSubstr("takes one value"));
  EXPECT_THAT(message("listen: [[a]]\n"), HasSubstr("takes a value or a list of values"));
  EXPECT_THAT(message("listen: {a: b}\n"), HasSubstr("takes a value or a list of values"));
  EXPECT_THAT(message("http:\n"), HasSubstr("has no value"));
  EXPECT_THAT(message("config: x\n"), HasSubstr("cannot be set in the file"));
  EXPECT_THAT(message("help: true\n"), HasSubstr("cannot be set in the file"));
  EXPECT_THAT(message("- a\n"), HasSubstr("must be a map"));
  EXPECT_THAT(message("shards: [1\n"), HasSubstr("is not YAML"));
  EXPECT_THAT(message("[a]: b\n"), HasSubstr("plain text"));
  EXPECT_THAT(message("shards: 1\n---\nshards: 2\n"), HasSubstr("more than one YAML document"));
  EXPECT_THAT(message("listen: " + std::string(100, '[')), HasSubstr("is nested too deeply"));
  EXPECT_THAT(Failed({"--config=/"}).message, HasSubstr("is a folder"));
  EXPECT_THAT(Failed({"--config=/nonexistent/x.yaml"}).message, HasSubstr("/nonexistent/x.yaml cannot be read"));
  EXPECT_THAT(Failed({"--config=redis://u:secret@h"}).message, Not(HasSubstr("secret")));
}

TEST(OptionSources, AFileOfSecretsGivenByMistakeIsNotShown) {
  for (const char* yaml : {"s3cret", "s3cret: x", "s3cret: s3cret", "- s3cret", "s3cret: [", "'s3cret", "\"\\s3cret\"",
                           "x: *s3cret", "!s3cret!x y", "{s3cret: s3cret}", "? [s3cret]\n: x", "s3cret\n---\ns3cret",
                           "&s3cret &s3cret x", "a: b: s3cret", "help: s3cret"}) {
    const Failure failure = FileFailed(yaml);
    EXPECT_THAT(failure.message, Not(HasSubstr("s3cret"))) << yaml;
    EXPECT_EQ(failure.exit_code, 78) << yaml;
  }
}

TEST(OptionSources, APasswordOnTheCommandLineIsWarnedOf) {
  const auto warnings = [](const Strings& args, const Strings& environment = {}) {
    const absl::StatusOr<Invocation> invocation = ParseOptions(args, environment);
    EXPECT_TRUE(invocation.ok()) << invocation.status();
    return invocation->warnings;
  };
  for (const char* url :
       {"redis://u:s3cret@h", "redis://:s3cret@h", "redis+cluster://:s3cret@h", "redis+sentinel://u:s3cret@h/name"}) {
    for (const Strings& args : {Strings{"--redis", url}, Strings{std::string("--redis=") + url}}) {
      EXPECT_THAT(warnings(args),
                  ElementsAre(AllOf(HasSubstr("--redis: the password"), HasSubstr("--redis-password-file"),
                                    HasSubstr("DISTLOCK_REDIS "), Not(HasSubstr("s3cret")))));
    }
    EXPECT_THAT(warnings({}, {std::string("DISTLOCK_REDIS=") + url}), IsEmpty());
    const ConfigFile file(std::string("redis: ") + url);
    EXPECT_THAT(warnings({"--config", file.path()}), IsEmpty());
  }
  EXPECT_THAT(warnings({"--redis=redis://h:1", "--redis-password-file=/run/pw"}), IsEmpty());
}

TEST(OptionSources, UnknownVariablesAreWarnedAboutOnlyWhenTheyLookLikeOurs) {
  EXPECT_THAT(Warnings({"DISTLOCK_VALIDTY=3s"}),
              ElementsAre("variable DISTLOCK_VALIDTY is unknown and ignored; did you mean DISTLOCK_VALIDITY?"));
  EXPECT_THAT(Warnings({"DISTLOCK_REDIS_PASSWORD=s3cret"}),
              ElementsAre(AllOf(HasSubstr("DISTLOCK_REDIS_PASSWORD_FILE?"), Not(HasSubstr("s3cret")))));
  EXPECT_THAT(Warnings({"DISTLOCK_SERVER=x", "DISTLOCK_KEY=x", "DISTLOCK_NAMESPACE=x", "DISTLOCK_TOKEN=x",
                        "DISTLOCK_HOLDER_ID=x", "DISTLOCK_SERVICE_HOST=10.0.0.1", "DISTLOCK_SERVICE_PORT=7420",
                        "DISTLOCK_PORT=tcp://10.0.0.1:7420", "DISTLOCK_PORT_7420_TCP_ADDR=10.0.0.1", "DISTLOCK_"}),
              IsEmpty());
}

TEST(OptionSources, VariablesOfDistlockctlGiveNoWarning) {
  EXPECT_THAT(Warnings({"DISTLOCK_KEYS=x", "DISTLOCK_TOKENS=1", "DISTLOCK_LEASE_ID=x", "DISTLOCK_TTL=15s",
                        "DISTLOCK_LOST_REASON=TAKEN"}),
              IsEmpty());
}

TEST(OptionSources, HelpAndVersionWorkDespiteOtherMistakes) {
  const auto action = [](const Strings& args) { return ParseOptions(args, {"DISTLOCK_SHARDS=many"})->action; };
  EXPECT_EQ(action({"--shards=0", "--help"}), Invocation::Action::kHelp);
  EXPECT_EQ(action({"-h"}), Invocation::Action::kHelp);
  EXPECT_EQ(action({"--version"}), Invocation::Action::kVersion);
  EXPECT_EQ(action({"--help", "--version"}), Invocation::Action::kHelp);
  EXPECT_EQ(ParseOptions({"--print-config"}, {})->action, Invocation::Action::kPrintConfig);
}

}  // namespace
}  // namespace distlock::ops
