// SPDX-License-Identifier: Apache-2.0
#include "call_thread.h"

#include <pthread.h>

namespace distlock::internal {

CallThread::CallThread() : queue_(std::make_shared<grpc::CompletionQueue>()) {
  thread_ = std::thread([queue = queue_] {
    pthread_setname_np(pthread_self(), "distlock-calls");
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) static_cast<CallTag*>(tag)->Run(ok);
  });
}

CallThread::~CallThread() {
  queue_->Shutdown();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

}  // namespace distlock::internal
