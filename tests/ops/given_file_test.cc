// SPDX-License-Identifier: Apache-2.0
//
// Files that are given by name: what is read, and what is refused at once and by name. A read that waits would hang the
// test.
#include "distlock/wire/given_file.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "ops/options.h"
#include "ops/secrets.h"

namespace distlock::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::ReadGivenFile;

class GivenFile : public ::testing::Test {
 protected:
  GivenFile() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~GivenFile() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(At(name), std::ios::binary) << text;
    return At(name);
  }
  std::string Fifo() const {
    EXPECT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
    return At("fifo");
  }

  std::string folder_ = std::filesystem::temp_directory_path() / "given_file_test.XXXXXX";
};

TEST_F(GivenFile, IsReadWholeAlsoThroughLinks) {
  const std::string text = std::string(100'000, 'x') + std::string(1, '\0') + "y";
  const std::string path = Write("file", text);
  EXPECT_EQ(ReadGivenFile(path).text, text);
  EXPECT_EQ(ReadGivenFile(path).problem, "");
  // As Kubernetes mounts a secret.
  std::filesystem::create_directory(At("..1"));
  std::filesystem::rename(path, At("..1/file"));
  std::filesystem::create_directory_symlink("..1", At("..data"));
  std::filesystem::create_symlink("..data/file", At("file"));
  EXPECT_EQ(ReadGivenFile(path).text, text);
  EXPECT_EQ(ReadGivenFile(Write("empty", "")).problem, "");
  ASSERT_EQ(chmod(Write("open", "").c_str(), 0604), 0);
  EXPECT_EQ(ReadGivenFile(At("open")).mode & 0777, 0604u);
}

TEST_F(GivenFile, WhatIsNoFileIsNamedAndNotWaitedFor) {
  EXPECT_EQ(ReadGivenFile(Fifo()).problem, "is a FIFO, not a regular file");
  std::filesystem::create_symlink("fifo", At("link"));
  EXPECT_EQ(ReadGivenFile(At("link")).problem, "is a FIFO, not a regular file");
  EXPECT_EQ(ReadGivenFile(folder_).problem, "is a folder, not a regular file");
  EXPECT_EQ(ReadGivenFile("/dev/zero").problem, "is a device, not a regular file");
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strcpy(where.sun_path, At("sock").c_str());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
  EXPECT_EQ(ReadGivenFile(At("sock")).problem, "is a socket, not a regular file");
  close(fd);
  EXPECT_EQ(ReadGivenFile(At("none")).problem, "cannot be read: No such file or directory");
  EXPECT_EQ(ReadGivenFile("/proc/self/mem").problem, "cannot be read: Input/output error");
}

TEST_F(GivenFile, HasABound) {
  EXPECT_EQ(ReadGivenFile(Write("most", std::string(4096, 'x')), 4096).text.size(), 4096u);
  const wire::GivenFile more = ReadGivenFile(Write("more", std::string(4097, 'x')), 4096);
  EXPECT_EQ(more.problem, "is larger than 4 KiB");
  EXPECT_EQ(more.text, "");
  EXPECT_EQ(ReadGivenFile(Write("large", std::string((1 << 20) + 1, 'x'))).problem, "is larger than 1 MiB");
  EXPECT_EQ(ReadGivenFile(At("more"), 5).problem, "is larger than 5 bytes");
  EXPECT_EQ(ReadGivenFile("/proc/self/maps", 5).problem, "is larger than 5 bytes") << "its size is said to be 0";
}

TEST_F(GivenFile, OfOptionsAndPasswordsIsOne) {
  const std::string fifo = Fifo();
  for (const auto& [path, what] : {std::pair(fifo, "is a FIFO"), std::pair(folder_, "is a folder"),
                                   std::pair(std::string("/dev/zero"), "is a device"),
                                   std::pair(std::string("/proc/self/mem"), "cannot be read")}) {
    const auto options = ParseOptions({"--config", path}, {});
    EXPECT_THAT(std::string(options.status().message()), AllOf(StartsWith("--config: "), HasSubstr(what)));
    EXPECT_EQ(ExitCode(options.status()), 78);
    EXPECT_THAT(std::string(ReadSecretFile(path).status().message()), AllOf(HasSubstr(path), HasSubstr(what)));
  }
}

}  // namespace
}  // namespace distlock::ops
