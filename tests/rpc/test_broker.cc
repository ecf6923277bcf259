// SPDX-License-Identifier: Apache-2.0
#include "rpc/test_broker.h"

#include <grpcpp/create_channel.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "contract/ids.h"

namespace distlock::rpc {

TestBroker::TestBroker(TestOptions options) {
  std::string folder = (std::filesystem::temp_directory_path() / "distlock-rpc-XXXXXX").string();
  folder_ = mkdtemp(folder.data());
  if (options.server.acceptor.listen.empty()) options.server.acceptor.listen = {"unix://" + folder_ + "/broker.sock"};
  if (options.server.broker_id.empty()) options.server.broker_id = "00112233445566aa";
  options.core.validity = options.server.limits.validity;
  options.core.store = shard::ModelStores::kTraits;
  const auto broker_id_of = [id = options.server.broker_id](int shard) { return contract::ShardBrokerId(id, shard); };
  shards_ = std::make_unique<shard::ShardSet>(shard::ShardSetOptions{.shards = options.shards,
                                                                     .mailbox_capacity = options.mailbox_capacity,
                                                                     .broker = options.core,
                                                                     .make_store = store_.Factory(broker_id_of)});
  shards_->Start();
  auto server = Server::Start(options.server, *shards_,
                              {.version = "test",
                               .store_url = "model",
                               .started = absl::Now(),
                               .listen = {},
                               .drain =
                                   [this](std::optional<core::Duration> timeout) {
                                     ++drains_;
                                     return timeout.value_or(std::chrono::seconds(30));
                                   },
                               .upgrade_store =
                                   [this](uint32_t to, const std::string&, auto changed) {
                                     changes_.push_back("upgrade " + std::to_string(to));
                                     changed(change_ends_);
                                   },
                               .init_quorum =
                                   [this](bool stopped, const std::string&, auto changed) {
                                     changes_.push_back(stopped ? "init, stopped" : "init");
                                     changed(change_ends_);
                                   }});
  if (!server.ok()) {
    ADD_FAILURE() << server.status();
    abort();
  }
  server_ = *std::move(server);
  address_ = server_->addresses()[0];
  const auto channel = NewChannel();
  locks_ = v1::LockService::NewStub(channel);
  admin_ = v1::AdminService::NewStub(channel);
}

TestBroker::~TestBroker() { Stop(); }

void TestBroker::Stop() {
  if (server_ != nullptr) server_->Stop(std::chrono::seconds(5));
  server_.reset();
  shards_->Stop();
  std::filesystem::remove_all(folder_);
}

std::shared_ptr<grpc::Channel> TestBroker::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
}

v1::Grant TestBroker::Take(const std::string& key, const std::string& request_id) {
  v1::AcquireRequest request;
  v1::LockSpec& lock = *request.add_locks();
  lock.set_key(key);
  lock.set_owner("taker");
  lock.mutable_max_wait();
  request.set_request_id(request_id);
  v1::AcquireResponse response;
  grpc::ClientContext context;
  const grpc::Status status = locks_->Acquire(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.grants(0);
}

void TestBroker::Release(const std::string& lease_id) {
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  const grpc::Status status = locks_->Release(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), v1::RELEASE_OUTCOME_RELEASED);
}

bool TestBroker::IsHeld(const std::string& key) {
  v1::GetLockRequest request;
  request.set_key(key);
  v1::GetLockResponse response;
  grpc::ClientContext context;
  const grpc::Status status = locks_->GetLock(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.lock().holders_size() > 0;
}

bool TestBroker::Await(const std::function<bool(const core::BrokerStats&)>& wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline) {
    core::BrokerStats sum;
    for (const shard::ShardStatus& status : shards_->Status()) {
      sum.sessions += status.stats.sessions;
      sum.leases += status.stats.leases;
      sum.waiters += status.stats.waiters;
      sum.pending_releases += status.stats.pending_releases;
      sum.watches += status.stats.watches;
    }
    if (wanted(sum)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TestSession::~TestSession() {
  if (finished_) return;
  context_.TryCancel();
  Finish();
}

TestSession& TestSession::Open(uint64_t id) {
  Add(id).mutable_open()->set_client("test");
  return *this;
}

TestSession& TestSession::Acquire(uint64_t id, const std::string& key, bool one_try) {
  v1::LockSpec& spec = *Add(id).mutable_acquire()->add_locks();
  spec.set_key(key);
  spec.set_owner("owner of " + key);
  if (one_try) spec.mutable_max_wait();
  return *this;
}

TestSession& TestSession::Release(uint64_t id, uint64_t acquire) {
  Add(id).mutable_release()->set_acquire_id(acquire);
  return *this;
}

TestSession& TestSession::Cancel(uint64_t acquire) {
  Add().mutable_cancel()->set_acquire_id(acquire);
  return *this;
}

TestSession& TestSession::Heartbeat(uint64_t seq) {
  Add().mutable_heartbeat()->set_seq(seq);
  return *this;
}

TestSession& TestSession::Goodbye() {
  Add().mutable_goodbye();
  return *this;
}

bool TestSession::Send() {
  const bool sent = stream_->Write(request_);
  request_.Clear();
  return sent;
}

v1::SessionEvent TestSession::Next() {
  while (at_ == response_.events_size()) {
    at_ = 0;
    response_.Clear();
    if (!stream_->Read(&response_)) return {};
    largest_ = std::max(largest_, response_.ByteSizeLong());
  }
  return response_.events(at_++);
}

grpc::Status TestSession::Finish() {
  while (Next().event_case() != v1::SessionEvent::EVENT_NOT_SET) {
  }
  finished_ = true;
  return stream_->Finish();
}

Details::Details(const grpc::Status& status) : contract::Details(Read(status)) {
  EXPECT_EQ(code, static_cast<int>(status.error_code()));
  EXPECT_EQ(message, status.error_message());
}

wire::RpcStatus Details::Read(const grpc::Status& status) {
  wire::RpcStatus all;
  EXPECT_TRUE(all.ParseFromString(status.error_details()));
  return all;
}

}  // namespace distlock::rpc
