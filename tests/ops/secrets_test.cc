// SPDX-License-Identifier: Apache-2.0
#include "ops/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace distlock::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(RedactedUrl, HidesPasswordsWhereverTheyStand) {
  EXPECT_EQ(RedactedUrl(""), "");
  EXPECT_EQ(RedactedUrl("redis://host:6379/0"), "redis://host:6379/0");
  EXPECT_EQ(RedactedUrl("redis://:pw@host"), "redis://:***@host");
  EXPECT_EQ(RedactedUrl("redis://user:pw@host:1/2"), "redis://user:***@host:1/2");
  EXPECT_EQ(RedactedUrl("redis://pw@host"), "redis://***@host");
  EXPECT_EQ(RedactedUrl("unix:///run/redis.sock?db=1&password=pw"), "unix:///run/redis.sock?db=1&password=***");
  EXPECT_EQ(RedactedUrl("user:pw@host"), "***") << "without a scheme it is no URL";
}

TEST(RedactedUrl, ShowsWhatCannotBeAPassword) {
  for (const char* url :
       {"redis://host", "redis://10.0.0.1:6379/3", "rediss://[::1]:7/1", "redis://a_b-c.example:65535", "host:6379",
        "unix:///run/my redis/r.sock?db=2", "redis+sentinel://a:26379,b:26379/my-master", "redlock://a,b,c",
        "rediss://h?ca=/etc/ca.pem&cert=/c.pem&key=/k.pem&sni=name.example"}) {
    EXPECT_EQ(RedactedUrl(url), url);
  }
}

// A part that is not at its place may be a password.
TEST(RedactedUrl, HidesPartsAtWrongPlaces) {
  for (const char* url : {"redis://:secret",
                          "redis://user:secret",
                          "redis://user:secret/0",
                          "redis://:secret/0",
                          "redis://user:secret:6379",
                          "redis://:secret:6379",
                          "redis://u:123456secret",
                          "redis://u:secret?db=1",
                          "rediss://:secret?ca=/x",
                          "secret",
                          ":secret",
                          "user:secret",
                          "redis:secret",
                          "redis:/:secret@h",
                          "redis//:secret@h",
                          "//:secret@h",
                          "redis:///:secret@h",
                          "redis://secret@",
                          "redis://secret@h",
                          "redis://u:secret@",
                          "redis://:secret@::1",
                          "redis://h:1@secret:x",
                          "redis://h?secret",
                          "redis://h?password=secret",
                          "redis://h?x=secret",
                          "redis://h?db=secret%",
                          "redis://h/:secret",
                          "redis://h/secret",
                          "redis://h#secret",
                          "redis://h:secret",
                          "redis://h:6379secret",
                          "redis://[::1]:secret",
                          "redis://[secret",
                          "redis://[:secret]",
                          "unix://:secret/p",
                          "unix://secret",
                          "unix://u:secret@/p",
                          "unix://u:secret/run/p",
                          "REDIS://:secret",
                          " redis://:secret",
                          "redis://:sec secret@h",
                          "redis://:secret %@h",
                          "redis+sentinel://:secret",
                          "redis+sentinel://a,:secret",
                          "redlock://a,b:secret",
                          "secret@x://h",
                          "u:secret://h",
                          "redis+secret@://h",
                          "redis://u:p@u:secret@h",
                          "redis://u:secret\n@h",
                          "redis://u\nsecret@h:1"}) {
    EXPECT_THAT(RedactedUrl(url), Not(HasSubstr("secret"))) << url;
    if (std::string_view(url).find("://") == std::string_view::npos) continue;
    EXPECT_THAT(RedactedText(url), Not(HasSubstr("secret"))) << url;
  }
}

TEST(RedactedUrl, HidesTooMuchRatherThanHalfAPassword) {
  for (const char* url : {"redis://u:p@ss@host", "redis://u:p/ss@host", "redis://u:p?ss@host", "redlock://:ss@a,:ss@b",
                          "redis://:ss:ss@host", "redis://host?pass=ss", "redis://host?auth=ss&x=y"}) {
    EXPECT_THAT(RedactedUrl(url), Not(HasSubstr("ss@"))) << url;
    EXPECT_THAT(RedactedUrl(url), Not(HasSubstr("=ss"))) << url;
  }
}

TEST(HasPassword, IsWhatStandsBeforeTheHost) {
  for (const char* url : {"redis://u:pw@h", "redis://:pw@h", "redis://pw@h", "rediss+sentinel://u:p@ss@a,b/name",
                          "redis+cluster://:pw@a,b", "redis://:p/w@h"}) {
    EXPECT_TRUE(HasPassword(url)) << url;
  }
  for (const char* url : {"", "redis://h", "redis://h:1/2", "redis://u:@h", "unix:///run/x.sock", "a:b@c"}) {
    EXPECT_FALSE(HasPassword(url)) << url;
  }
}

TEST(RedactedText, HidesPasswordsOfUrlsInTheWrongPlace) {
  EXPECT_EQ(RedactedText("--redis://u:pw@host"), "--redis://u:***@host");
  EXPECT_EQ(RedactedText("unix:///a/redis://u:pw@host"), "unix://***@***");
  for (const char* text : {"", "a@b", "unix:///run/a@b.sock", "redis://host", "a:b@c"}) {
    EXPECT_EQ(RedactedText(text), text);
  }
}

TEST(Redacted, TellsLeasesApartWithoutShowingTheirIds) {
  EXPECT_THAT(Redacted("lease-one"), MatchesRegex("[0-9a-f]{8}"));
  EXPECT_EQ(Redacted("lease-one"), Redacted("lease-one"));
  EXPECT_NE(Redacted("lease-one"), Redacted("lease-two"));
  EXPECT_EQ(Redacted(""), "none");
}

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() { close(mkstemp(path_.data())); }
  ~SecretFile() override { std::filesystem::remove(path_); }
  absl::StatusOr<std::string> Read(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return ReadSecretFile(path_);
  }
  std::string path_ = std::filesystem::temp_directory_path() / "secrets_test.XXXXXX";
};

TEST_F(SecretFile, OnlyTheLastLineEndIsCutOff) {
  EXPECT_EQ(*Read("pw"), "pw");
  EXPECT_EQ(*Read("pw\n"), "pw");
  EXPECT_EQ(*Read("pw\r\n"), "pw");
  EXPECT_EQ(*Read(" p w \n\n"), " p w \n");
}

TEST_F(SecretFile, UnusableFilesAreNamed) {
  EXPECT_THAT(std::string(Read("").status().message()), HasSubstr(path_ + " is empty"));
  EXPECT_THAT(std::string(Read("\n").status().message()), HasSubstr("is empty"));
  EXPECT_THAT(std::string(Read(std::string("a\0b", 3)).status().message()), HasSubstr("zero byte"));
  EXPECT_THAT(std::string(Read(std::string(5000, 'x')).status().message()), HasSubstr("is larger than 4 KiB"));
  EXPECT_THAT(std::string(ReadSecretFile("/nonexistent/pw").status().message()), HasSubstr("No such file"));
  EXPECT_THAT(std::string(ReadSecretFile("/").status().message()), HasSubstr("is a folder"));
}

}  // namespace
}  // namespace distlock::ops
