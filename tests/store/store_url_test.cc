// SPDX-License-Identifier: Apache-2.0
#include "store/store_url.h"

#include <gtest/gtest.h>

namespace distlock::store {
namespace {

using Transport = StoreUrl::Transport;

TEST(StoreUrl, Defaults) {
  const auto url = ParseStoreUrl("redis://db.example");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->transport, Transport::kTcp);
  EXPECT_EQ(url->address.host, "db.example");
  EXPECT_EQ(url->address.port, 6379);
  EXPECT_EQ(url->db, 0);
  EXPECT_EQ(url->Masked(), "redis://db.example:6379");
}

TEST(StoreUrl, Everything) {
  const auto url = ParseStoreUrl("redis://us%40er:p%2Fw@h:7000/3");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->user, "us@er");
  EXPECT_EQ(url->password, "p/w");
  EXPECT_EQ(url->address.port, 7000);
  EXPECT_EQ(url->db, 3);
  EXPECT_EQ(url->Masked().find("p/w"), std::string::npos);
}

TEST(StoreUrl, PasswordAlone) {
  const auto url = ParseStoreUrl("redis://:pw@h");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->user, "");
  EXPECT_EQ(url->password, "pw");
}

TEST(StoreUrl, AnAtSignInThePasswordBelongsToIt) {
  const auto url = ParseStoreUrl("redis://:p@w@h");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->password, "p@w");
  EXPECT_EQ(url->address.host, "h");
}

TEST(StoreUrl, Ipv6) {
  const auto url = ParseStoreUrl("redis://[::1]:7/1");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->address.host, "::1");
  EXPECT_EQ(url->Masked(), "redis://[::1]:7/1");
}

TEST(StoreUrl, Unix) {
  const auto url = ParseStoreUrl("unix:///run/redis.sock?db=2");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->transport, Transport::kUnix);
  EXPECT_EQ(url->address.path, "/run/redis.sock");
  EXPECT_EQ(url->db, 2);
  EXPECT_EQ(ParseStoreUrl("unix://u:pw@/a")->password, "pw");
}

TEST(StoreUrl, Tls) {
  const auto url = ParseStoreUrl("rediss://h?ca=/ca.pem&cert=/c.pem&key=/k.pem&sni=name");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->transport, Transport::kTls);
  EXPECT_EQ(url->tls.ca, "/ca.pem");
  EXPECT_EQ(url->tls.cert, "/c.pem");
  EXPECT_EQ(url->tls.key, "/k.pem");
  EXPECT_EQ(url->tls.sni, "name");
}

// An error says what is wrong, and nothing of the text: any part of it may be a password in the wrong place.
TEST(StoreUrl, WrongOnesAreRefusedWithoutTheirPassword) {
  for (const std::string bad : {"",
                                "redis",
                                "redis://",
                                "http://:secret@h",
                                "u:secret@x://h",
                                "u:secret@x://u:secret@h",
                                "redis+u:secret@x://h",
                                "redis://:secret",
                                "redis://user:secret",
                                "redis://user:secret/0",
                                "redis://h/secret",
                                "redis://h?secret",
                                "redis://h?secret=",
                                "redis://h?secret=1",
                                "unix:///p?db=secret",
                                "unix://secret",
                                "secret://h",
                                "secret",
                                "redis://:secret@",
                                "redis://:secret@h:0",
                                "redis://:secret@h:99999",
                                "redis://:secret@h:x",
                                "redis://:secret@h/x",
                                "redis://:secret@h/-1",
                                "redis://:secret@a,b",
                                "redis://secret@h",
                                "redis://:secret@::1",
                                "redis://:secret@[::1",
                                "unix://:secret@rel",
                                "unix://",
                                "redis://:secret@h?db=1",
                                "rediss://:secret@h?cert=/c",
                                "rediss://:secret@h?ca=",
                                "redis://:secret%zz@h",
                                "unix:///p?db=x",
                                "redis://:secret%00@h"}) {
    const auto url = ParseStoreUrl(bad);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(url.status().ToString().find("secret"), std::string::npos) << url.status();
  }
}

TEST(StoreUrl, OtherTopologiesAreNamedAsSuch) {
  for (const std::string other :
       {"redis+sentinel://:secret@a,b/name", "redis+cluster://a,b", "redlock://a,b,c", "rediss+cluster://a"}) {
    const auto url = ParseStoreUrl(other);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kUnimplemented) << other;
    EXPECT_EQ(url.status().ToString().find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace distlock::store
