// SPDX-License-Identifier: Apache-2.0
//
// The store of one Redis or Valkey server: one node whose address never changes.
//
// Thread: the loop's, as Store says. After Stop the network must go on until what it has under way is over (a uv loop:
// until its handles are closed).
#pragma once

#include <functional>
#include <string>

#include "core/store_traits.h"
#include "store/redis/server_node.h"
#include "store/store.h"

namespace distlock::store {

class SingleStore : public Store, private ServerNode::Owner {
 public:
  // One server has all locks and all subscribers.
  static constexpr core::StoreTraits kTraits{.takes_many_at_once = true, .counts_listeners = true};

  SingleStore(const Network& network, const StoreOptions& options)
      : node_(network, options.url.address, options, this) {}
  ~SingleStore() override { Stop(); }

  void Start(StoreListener* listener) override {
    listener_ = listener;
    node_.Start();
  }
  void Submit(core::StoreCommand&& command) override { node_.commands().Submit(std::move(command)); }
  void Flush() override { node_.commands().Flush(); }
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done) override {
    node_.queries().Inspect(name, max_waiters, timeout, std::move(done));
  }
  void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size, std::string page_token,
            core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done) override {
    node_.queries().List(escaped_namespace, escaped_key_prefix, page_size, page_token, timeout, std::move(done));
  }
  bool AllServersAreUp() const override { return node_.up(); }
  void Stop() override {
    listener_ = nullptr;
    node_.Stop();
  }

 private:
  void OnNodeInput(core::Input&& input) override {
    if (listener_ != nullptr) listener_->OnStoreInput(std::move(input));
  }

  StoreListener* listener_ = nullptr;  // null before Start and after Stop
  ServerNode node_;
};

}  // namespace distlock::store
