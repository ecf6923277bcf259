// SPDX-License-Identifier: Apache-2.0
//
// TLS against a real server: who is believed, and what is said when not.
#include "store/redis/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "store/open_store.h"
#include "store/text.h"
#include "store_test.h"

namespace distlock::store {
namespace {

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

// A server that only speaks TLS, with a certificate for "localhost" signed by its own authority, and asks for one.
class TlsServer {
 public:
  TlsServer() {
    Run("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem");
    Run("openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out csr.pem");
    Run("printf 'subjectAltName=DNS:localhost' > san && openssl x509 -req -in csr.pem -CA ca.pem -CAkey ca.key "
        "-CAcreateserial -days 2 -extfile san -out cert.pem");
    // The kernel can give a free port to somebody else before the server takes it: then another one.
    for (int attempt = 0; attempt < 5 && !Launch(); ++attempt) {
    }
  }
  ~TlsServer() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void Pause(bool on) const { kill(pid_, on ? SIGSTOP : SIGCONT); }

  StoreUrl Url() const {
    StoreUrl url;
    url.transport = StoreUrl::Transport::kTls;
    url.address.host = "127.0.0.1";
    url.address.port = port_;
    url.tls = {.ca = dir_ / "ca.pem", .cert = dir_ / "cert.pem", .key = dir_ / "key.pem", .sni = "localhost"};
    return url;
  }

 private:
  void Run(const std::string& command) {
    const std::string line = Cat("cd ", dir_.path(), " && (", command, ") >>openssl.log 2>&1");
    ASSERT_EQ(system(line.c_str()), 0) << line;
  }

  bool Launch() {
    port_ = FreePort();
    const std::string port = Cat(port_);
    pid_ = fork();
    if (pid_ == 0) {
      if (chdir(dir_.path().c_str()) != 0 || freopen("server.log", "w", stdout) == nullptr) _exit(1);
      execlp("redis-server", "redis-server", "--port", "0", "--tls-port", port.c_str(), "--tls-ca-cert-file", "ca.pem",
             "--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem", "--save", "", "--bind", "127.0.0.1",
             static_cast<char*>(nullptr));
      _exit(127);
    }
    for (;;) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port_));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const bool up = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
      close(fd);
      const bool ended = waitpid(pid_, nullptr, WNOHANG) != 0;
      if (ended) pid_ = -1;
      if (up || ended) return up && !ended;
      usleep(2000);
    }
  }

  TempDir dir_;
  int port_ = 0;
  pid_t pid_ = -1;
};

class TlsTest : public StoreTest {
 protected:
  TlsServer tls_server_;
};

TEST_F(TlsTest, WorksAndPipelinesMuchAtOnce) {
  StartAndAwaitUp(OptionsFor(tls_server_.Url()));
  for (core::OpId op = 1; op <= 500; ++op) {
    auto acquire = MakeAcquire(op, Lock(Cat(op)), Owner(1));
    acquire.info = std::string(8 << 10, 'x');
    store_->Submit(acquire);
  }
  store_->Flush();
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreReply>() == 500; }));
  for (core::OpId op = 1; op <= 500; ++op) {
    EXPECT_TRUE(std::holds_alternative<core::AcquireGranted>(seen_.Reply(op)->outcome)) << op;
  }
  // Long answers too.
  for (core::OpId op = 1001; op <= 1500; ++op) store_->Submit(MakeAcquire(op, Lock(Cat(op - 1000)), Owner(2)));
  store_->Flush();
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreReply>() == 1000; }));
  EXPECT_EQ(std::get<core::AcquireHeld>(seen_.Reply(1500)->outcome).holders[0].info.size(), 8u << 10);
  EXPECT_TRUE(problems_.empty()) << problems_.back();
}

TEST_F(TlsTest, AReconnectEndsEachCommandOnce) {
  StartAndAwaitUp(OptionsFor(tls_server_.Url()));
  for (core::OpId op = 1; op <= 50; ++op) store_->Submit(MakeAcquire(op, Lock(Cat(op)), Owner(1)));
  tls_server_.Pause(true);
  store_->Flush();
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreReply>() == 50; })) << "silence ends the connection";
  tls_server_.Pause(false);
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreUp>() == 2; }));
  for (core::OpId op = 1; op <= 50; ++op) EXPECT_EQ(seen_.Replies(op), 1u);
}

TEST_F(TlsTest, AnUnknownAuthorityIsNotBelieved) {
  auto url = tls_server_.Url();
  url.tls.ca = "";
  Start(OptionsFor(url));
  ASSERT_TRUE(loop_.RunUntil([&] { return !problems_.empty(); }));
  EXPECT_TRUE(Contains(View(problems_[0].message()), "certificate is not accepted")) << problems_[0];
  EXPECT_FALSE(seen_.Up());
}

TEST_F(TlsTest, ACertificateForAnotherNameIsNotBelieved) {
  for (const std::string name : {"elsewhere.example", ""}) {  // "": the host, here an address the certificate lacks
    auto url = tls_server_.Url();
    url.tls.sni = name;
    const auto result = CheckStore(OptionsFor(url), std::chrono::milliseconds(300));
    EXPECT_FALSE(result.ok());
    EXPECT_TRUE(Contains(View(result.status().message()), "certificate is not accepted")) << result.status();
  }
}

TEST_F(TlsTest, WhatIsNoFileIsNamedAndNotWaitedFor) {
  TempDir other;
  const std::string fifo = other / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (std::string TlsFiles::* file : {&TlsFiles::ca, &TlsFiles::cert, &TlsFiles::key}) {
    for (const auto& [path, what] :
         {std::pair(fifo, "it is a FIFO"), std::pair(other.path(), "it is a folder"),
          std::pair(std::string("/dev/zero"), "it is a device"), std::pair(std::string("/dev/null"), "it is a device"),
          std::pair(std::string("/nonexistent"), "it cannot be read: No such file")}) {
      TlsFiles files = tls_server_.Url().tls;
      files.*file = path;
      const auto tls = NewTls(files, "localhost");
      EXPECT_EQ(tls.status().code(), absl::StatusCode::kInvalidArgument) << path;
      EXPECT_TRUE(Contains(View(tls.status().message()), Cat("'", path, "': ", what))) << tls.status();
    }
  }
  TlsFiles files = tls_server_.Url().tls;
  std::swap(files.ca, files.key);
  EXPECT_TRUE(Contains(View(NewTls(files, "localhost").status().message()), "no start line"));
}

TEST_F(TlsTest, WithoutTheCertificateThatTheServerWantsItSaysSo) {
  auto url = tls_server_.Url();
  url.tls.cert = url.tls.key = "";
  const auto result = CheckStore(OptionsFor(url), std::chrono::milliseconds(500));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable) << result.status();
}

TEST_F(TlsTest, APlainConnectionToItIsAProblemNotAHang) {
  auto url = tls_server_.Url();
  url.transport = StoreUrl::Transport::kTcp;
  url.tls = {};
  const auto result = CheckStore(OptionsFor(url), std::chrono::milliseconds(500));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable) << result.status();
}

}  // namespace
}  // namespace distlock::store
