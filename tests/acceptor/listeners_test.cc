// SPDX-License-Identifier: Apache-2.0
#include "acceptor/listeners.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "acceptor/callers.h"
#include "text/unix_address.h"

namespace distlock::acceptor {
namespace {

using testing::HasSubstr;

// "": no file, but a name that the kernel chooses.
int BindUnix(const std::string& path, bool listening) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  path.copy(where.sun_path, sizeof(where.sun_path) - 1);
  const socklen_t size = path.empty() ? sizeof(where.sun_family) : sizeof(where);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&where), size), 0);
  if (listening && listen(fd, 1) != 0) ADD_FAILURE() << path;
  return fd;
}

TEST(Listen, MakesTheFolderAndRemovesADeadSocket) {
  Folder folder;
  bool made = false;
  EXPECT_TRUE(ClaimUnixSocket(folder / "new/deep/d.sock", &made).ok());
  EXPECT_TRUE(made);
  EXPECT_TRUE(ClaimUnixSocket(folder / "new/deep/e.sock", &made).ok());
  EXPECT_FALSE(made) << "it was there";
  EXPECT_TRUE(std::filesystem::is_directory(folder / "new/deep"));
  const std::string path = folder / "dead.sock";
  close(BindUnix(path, /*listening=*/true));
  EXPECT_TRUE(ClaimUnixSocket(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Listen, LeavesLiveSocketsAndOtherFilesAlone) {
  Folder folder;
  const std::string path = folder / "live.sock";
  const int fd = BindUnix(path, /*listening=*/true);
  EXPECT_THAT(std::string(ClaimUnixSocket(path).message()), HasSubstr("another process is listening there"));
  EXPECT_TRUE(std::filesystem::exists(path));
  close(fd);
  std::ofstream(folder / "file") << "precious";
  EXPECT_THAT(std::string(ClaimUnixSocket(folder / "file").message()), HasSubstr("no socket"));
  EXPECT_TRUE(std::filesystem::exists(folder / "file"));
  EXPECT_FALSE(ClaimUnixSocket(folder / "file/below.sock").ok());
}

TEST(Listen, UnixAddresses) {
  EXPECT_EQ(UnixPath("unix:///run/d.sock"), "/run/d.sock");
  EXPECT_EQ(UnixPath("unix:/run/d.sock"), "/run/d.sock");
  EXPECT_EQ(UnixPath("127.0.0.1:1"), "");
}

TEST(Listen, OptionsOfAUnixAddress) {
  const auto plain = text::ParseUnixAddress("unix:///run/d.sock");
  EXPECT_EQ(plain.path + plain.group + plain.problem, "/run/d.sock");
  EXPECT_EQ(plain.mode, 0660u);
  const auto both = text::ParseUnixAddress("unix:///run/d.sock?mode=0600&group=locks");
  EXPECT_EQ(both.path, "/run/d.sock");
  EXPECT_EQ(both.mode, 0600u);
  EXPECT_EQ(both.group, "locks");
  EXPECT_EQ(UnixPath("unix:///run/d.sock?mode=0600"), "/run/d.sock");
  for (const char* wrong :
       {"mode=", "mode=660x", "mode=8", "mode=01666", "mode=0066", "group=", "user=me", "mode", ""}) {
    EXPECT_NE(text::ParseUnixAddress(std::string("unix:///d.sock?") + wrong).problem, "") << wrong;
  }
}

TEST(Listen, TheSocketHasTheModeAndGroupOfItsAddress) {
  Folder folder;
  const std::string path = folder / "d.sock";
  const gid_t own = getegid();
  auto opened = OpenListeners({"unix://" + path + "?mode=0606&group=" + std::to_string(own)}, {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->front().address, "unix://" + path);
  struct stat found{};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0606u);
  EXPECT_EQ(found.st_gid, own);
  const auto wrong = OpenListeners({"unix://" + (folder / "e.sock") + "?group=no-such-group"}, {});
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("there is no group 'no-such-group'"));
}

TEST(Listen, TheFileIsRemovedAtTheEndUnlessAnotherHasReplacedIt) {
  Folder folder;
  const std::string path = folder / "d.sock";
  auto first = OpenListeners({"unix://" + path}, {});
  ASSERT_TRUE(first.ok());
  CloseListener(first->front());
  EXPECT_FALSE(std::filesystem::exists(path));
  auto second = OpenListeners({"unix://" + path}, {});
  ASSERT_TRUE(second.ok());
  std::filesystem::remove(path);
  const Fd other(BindUnix(path, /*listening=*/true));
  CloseListener(second->front());
  EXPECT_TRUE(std::filesystem::exists(path)) << "it is another's";
}

TEST(Listen, ATakenPortAndAWrongHostAreNamed) {
  auto first = OpenListeners({"127.0.0.1:0"}, {});
  ASSERT_TRUE(first.ok());
  const std::string taken = first->front().address;
  EXPECT_THAT(taken, testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  EXPECT_THAT(std::string(OpenListeners({taken}, {}).status().message()), HasSubstr("another process has this port"));
  EXPECT_THAT(std::string(OpenListeners({"203.0.113.77:1"}, {}).status().message()), HasSubstr("203.0.113.77:1"));
}

TEST(Listen, AnInheritedSocketServesItsAddress) {
  Folder folder;
  const std::string path = folder / "systemd.sock";
  const int inherited = BindUnix(path, /*listening=*/true);
  auto opened = OpenListeners({"unix://" + path, "127.0.0.1:0"}, {inherited});
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(opened->size(), 2u);
  EXPECT_EQ(opened->front().fd.get(), inherited);
  CloseListener(opened->front());
  EXPECT_TRUE(std::filesystem::exists(path)) << "it is systemd's";

  const int unnamed = BindUnix(folder / "other.sock", /*listening=*/true);
  const auto refused = OpenListeners({"127.0.0.1:0"}, {unnamed});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("other.sock (LISTEN_FDS), which no --listen names"));

  const int without_path = BindUnix("", /*listening=*/true);
  EXPECT_THAT(std::string(OpenListeners({"127.0.0.1:0"}, {without_path}).status().message()),
              HasSubstr("(LISTEN_FDS), which no --listen names"))
      << "it has no path, and no more has a TCP address";
}

}  // namespace
}  // namespace distlock::acceptor
