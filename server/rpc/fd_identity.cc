// SPDX-License-Identifier: Apache-2.0
#include "rpc/fd_identity.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace distlock::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr milliseconds kPatience(10'000);  // of each step, on a busy machine
constexpr milliseconds kLook(10);

// Which socket a descriptor is; 0: none.
ino_t SocketOf(int fd) {
  struct stat found{};
  return fstat(fd, &found) == 0 ? found.st_ino : 0;
}

void* Tag(int number) {
  static char places[8];
  return &places[number];
}

// Serves until `wanted` comes or the time is over. True: it came.
bool Await(grpc::CompletionQueue& queue, int wanted, milliseconds patience) {
  const auto deadline = system_clock::now() + patience;
  void* tag = nullptr;
  bool ok = false;
  while (queue.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) {
    if (tag == Tag(wanted)) return true;
  }
  return false;
}

void ShutDown(grpc::CompletionQueue& queue) {
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

// A server that is given one end of a pair of sockets, and a client on the other.
bool TryItOut() {
  enum { kArrived = 1, kOver, kDone, kCalled, kEnded };
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return false;
  const ino_t socket = SocketOf(ends[0]);

  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  grpc::AddInsecureChannelFromFd(server.get(), ends[0]);
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter call(&context);
  context.AsyncNotifyWhenDone(Tag(kOver));
  service.RequestCall(&context, &call, queue.get(), queue.get(), Tag(kArrived));

  grpc::CompletionQueue client_queue;
  bool named = false;
  bool stays = false;
  {
    grpc::GenericStub stub(grpc::CreateInsecureChannelFromFd("self-test", ends[1]));
    grpc::ClientContext client_context;
    const auto client = stub.PrepareCall(&client_context, "/self/Test", &client_queue);
    client->StartCall(Tag(kCalled));
    Await(client_queue, kCalled, kPatience);
    named = Await(*queue, kArrived, kPatience) && context.peer() == "fd:" + std::to_string(ends[0]);
    client_context.TryCancel();
    grpc::Status status;
    client->Finish(&status, Tag(kEnded));
    Await(client_queue, kEnded, kPatience);
  }
  // The client has left. The call lives until it is finished here.
  if (named && Await(*queue, kOver, kPatience)) {
    Await(*queue, 0, 4 * kLook);
    stays = SocketOf(ends[0]) == socket;
    call.Finish(grpc::Status::CANCELLED, Tag(kDone));
    Await(*queue, kDone, kPatience);
  }
  server->Shutdown(system_clock::now());
  ShutDown(*queue);
  ShutDown(client_queue);
  return named && stays;
}

}  // namespace

bool NamesByDescriptorHold() {
  static const bool hold = TryItOut();
  return hold;
}

}  // namespace distlock::rpc
