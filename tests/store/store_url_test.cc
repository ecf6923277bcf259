// SPDX-License-Identifier: Apache-2.0
#include "store/store_url.h"

#include <gtest/gtest.h>

namespace distlock::store {
namespace {

TEST(StoreUrl, Defaults) {
  const auto url = ParseStoreUrl("redis://db.example");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->transport, StoreUrl::Transport::kTcp);
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
  EXPECT_EQ(url->transport, StoreUrl::Transport::kUnix);
  EXPECT_EQ(url->address.path, "/run/redis.sock");
  EXPECT_EQ(url->db, 2);
  EXPECT_EQ(ParseStoreUrl("unix://u:pw@/a")->password, "pw");
}

TEST(StoreUrl, Tls) {
  const auto url = ParseStoreUrl("rediss://h?ca=/ca.pem&cert=/c.pem&key=/k.pem&sni=name");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->transport, StoreUrl::Transport::kTls);
  EXPECT_EQ(url->tls.ca, "/ca.pem");
  EXPECT_EQ(url->tls.cert, "/c.pem");
  EXPECT_EQ(url->tls.key, "/k.pem");
  EXPECT_EQ(url->tls.sni, "name");
}

TEST(StoreUrl, Sentinels) {
  const auto url = ParseStoreUrl("redis+sentinel://us:pw@s1,s2:26380,[::1]:7/the.locks/3");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->topology, StoreUrl::Topology::kSentinel);
  EXPECT_EQ(url->transport, StoreUrl::Transport::kTcp);
  const std::vector<ServerAddress> expected = {
      {.host = "s1", .port = 26379}, {.host = "s2", .port = 26380}, {.host = "::1", .port = 7}};
  EXPECT_EQ(url->sentinels, expected);
  EXPECT_EQ(url->primary_name, "the.locks");
  EXPECT_EQ(url->db, 3);
  EXPECT_EQ(url->password, "pw");
  EXPECT_FALSE(url->sentinel_tls);
  EXPECT_EQ(url->Masked(), "redis+sentinel://us:***@s1:26379,s2:26380,[::1]:7/the.locks/3");
  EXPECT_EQ(ParseStoreUrl("redis+sentinel://h/n%2Fm")->primary_name, "n/m");
}

TEST(StoreUrl, SentinelsHaveTlsOfTheirOwn) {
  const auto url = ParseStoreUrl(
      "rediss+sentinel://s1/n?ca=/store.pem&sentinel_ca=/s.pem&sentinel_cert=/c&sentinel_key=/k&sentinel_sni=name");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->transport, StoreUrl::Transport::kTls);
  EXPECT_TRUE(url->sentinel_tls) << "as the store";
  EXPECT_EQ(url->tls, (TlsFiles{.ca = "/store.pem"}));
  EXPECT_EQ(url->sentinel_tls_files, (TlsFiles{.ca = "/s.pem", .cert = "/c", .key = "/k", .sni = "name"}));
  EXPECT_FALSE(ParseStoreUrl("rediss+sentinel://s1/n?sentinel_tls=off")->sentinel_tls);
  const auto mixed = ParseStoreUrl("redis+sentinel://s1/n?sentinel_tls=on&sentinel_ca=/s.pem");
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->transport, StoreUrl::Transport::kTcp);
  EXPECT_TRUE(mixed->sentinel_tls);
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
                                "redis://:secret%00@h",
                                "redis+sentinel://:secret@s1,s2",
                                "redis+sentinel://:secret@s1,s2/",
                                "redis+sentinel://:secret@/name",
                                "redis+sentinel://:secret@s1,,s2/name",
                                "redis+sentinel://:secret@s1,s1:26379/name",
                                "redis+sentinel://:secret@s1:0/name",
                                "redis+sentinel://:secret@a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q/name",
                                "redis+sentinel://s/a secret",
                                "redis+sentinel://s/name/secret",
                                "redis+sentinel://s/name?ca=secret",
                                "redis+sentinel://s/name?sentinel_tls=secret",
                                "redis+sentinel://s/name?sentinel_ca=secret",
                                "rediss+sentinel://s/name?sentinel_cert=secret",
                                "redis://s/0?sentinel_tls=on",
                                "unix+sentinel://s/secret"}) {
    const auto url = ParseStoreUrl(bad);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(url.status().ToString().find("secret"), std::string::npos) << url.status();
  }
}

TEST(StoreUrl, Clusters) {
  const auto url = ParseStoreUrl("redis+cluster://u:hush@a,b:7000,[::1]:7001");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->topology, StoreUrl::Topology::kCluster);
  EXPECT_EQ(url->transport, StoreUrl::Transport::kTcp);
  ASSERT_EQ(url->seeds.size(), 3u);
  EXPECT_EQ(url->seeds[0], (ServerAddress{.host = "a", .port = 6379, .path = {}}));
  EXPECT_EQ(url->seeds[2].Text(), "[::1]:7001");
  EXPECT_EQ(url->Masked(), "redis+cluster://u:***@a:6379,b:7000,[::1]:7001");
  EXPECT_TRUE(ParseStoreUrl("redis+cluster://a/").ok());
  EXPECT_TRUE(ParseStoreUrl("redis+cluster://a/0").ok());
  const auto tls = ParseStoreUrl("rediss+cluster://a?ca=/ca.pem");
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(tls->transport, StoreUrl::Transport::kTls);
  EXPECT_EQ(tls->tls.ca, "/ca.pem");
}

TEST(StoreUrl, ClustersHaveOneDatabase) {
  const auto status = ParseStoreUrl("redis+cluster://a/1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("only the database 0"), std::string::npos);
  for (const char* wrong : {"redis+cluster://", "redis+cluster://a,a", "redis+cluster://a,,b", "unix+cluster:///s"}) {
    EXPECT_EQ(ParseStoreUrl(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(StoreUrl, OtherTopologiesAreNamedAsSuch) {
  for (const std::string other : {"etcd://:secret@a", "etcd://a", "etcds://a"}) {
    const auto url = ParseStoreUrl(other);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kUnimplemented) << other;
    EXPECT_EQ(url.status().ToString().find("secret"), std::string::npos);
  }
}

TEST(StoreUrl, NamesTheServersOfAQuorum) {
  const auto url = ParseStoreUrl("redlock://:secret@a,b:7000,[::1]:7001/2");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->topology, StoreUrl::Topology::kQuorum);
  EXPECT_EQ(url->transport, StoreUrl::Transport::kTcp);
  ASSERT_EQ(url->servers.size(), 3u);
  EXPECT_EQ(url->servers[1].Text(), "b:7000");
  EXPECT_EQ(url->db, 2);
  EXPECT_EQ(url->Masked(), "redlock://:***@a:6379,b:7000,[::1]:7001/2");
  const auto tls = ParseStoreUrl("redlocks://a,b,c,d,e?ca=/ca.pem");
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(tls->transport, StoreUrl::Transport::kTls);
  EXPECT_EQ(tls->tls.ca, "/ca.pem");
  EXPECT_EQ(tls->Masked(), "redlocks://a:6379,b:6379,c:6379,d:6379,e:6379");
}

TEST(StoreUrl, AQuorumHasAnOddNumberOfDifferentServers) {
  for (const std::string wrong : {"redlock://a", "redlock://a,b", "redlock://a,b,c,d", "redlock://a,b,a",
                                  "redlock://a,b,c,d,e,f,g,h,i,j,k", "redlock://"}) {
    EXPECT_EQ(ParseStoreUrl(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace distlock::store
