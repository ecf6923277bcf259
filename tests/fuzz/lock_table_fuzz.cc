// SPDX-License-Identifier: Apache-2.0
//
// The client's lock table against two brokers that say anything at any time: each acquire and each release is answered
// exactly once, what has ended stays ended, time never stands still, and no number overflows. The program's own calls
// come from the input too.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes.h"
#include "core/check.h"
#include "distlock/v1/lock_service.pb.h"
#include "lock_table.h"

namespace {

using distlock::Duration;
using distlock::fuzz::Bytes;
using distlock::internal::Effects;
using distlock::internal::Lease;
using distlock::internal::LeasePtr;
using distlock::internal::Leases;
using distlock::internal::LockTable;
namespace v1 = distlock::v1;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kDay = 86'400'000 * kMs;
constexpr size_t kActionsMax = 400;

// One acquire of the program and what it was told.
struct Wish {
  distlock::internal::RequestPtr request;
  LeasePtr lease;
  bool granted = false;
  int answers = 0;
  bool ended = false;
  std::stop_token stop;
};

class Program {
 public:
  explicit Program(Bytes bytes) : bytes_(bytes) {}

  void Run() {
    for (size_t i = 0; i < kActionsMax && !bytes_.empty(); ++i) {
      Act();
      Settle();
    }
    table_.Close(now_, fx_);
    Settle();
    for (int link = 0; link < LockTable::kLinks; ++link) {
      if (streaming_[link]) Break(link);
    }
    Settle();
    for (const auto& wish : wishes_) DISTLOCK_CHECK(wish->answers == 1);
    for (const auto& answers : releases_) DISTLOCK_CHECK(*answers == 1);
  }

 private:
  void Act() {
    switch (bytes_.Below(12)) {
      case 0:
        return Acquire();
      case 1:
        return WithWish([this](Wish& wish) { table_.Cancel(*wish.request, fx_); });
      case 2:
        return Release();
      case 3:
        return WithWish([this](Wish& wish) { table_.Notice(wish.lease, now_, fx_); });
      case 4:
        return WithWish([this](Wish& wish) { TakeToken(wish); });
      case 5: {
        const int link = AnyLink();
        if (streaming_[link]) return Break(link);
        return link == table_.present() ? Start() : Downgrade();
      }
      case 6:
        return Send();
      case 7:
        return Hear(bytes_.LongText());
      case 8:
      case 9:
        return HearComposed();
      case 10:
        return Status();
      default:
        return Pass();
    }
  }

  void Acquire() {
    auto wish = std::make_unique<Wish>();
    Wish* const asked = wish.get();
    distlock::LockOptions options;
    if (bytes_.Flag()) options.max_hold = Duration(bytes_.Number<uint32_t>() * kMs);
    options.resume = bytes_.Flag();
    options.reentrant = bytes_.Flag();
    options.on_queued = [](const distlock::QueuedInfo&) {};
    std::optional<Duration> max_wait;
    if (bytes_.Flag()) max_wait = Duration(bytes_.Number<int64_t>());
    const auto answered = [asked](const distlock::Result<Leases>& answer) {
      ++asked->answers;
      asked->granted = answer.ok();
    };
    const auto spec = distlock::internal::MakeSpec(std::string(bytes_.Text()), options);
    wish->request = table_.Acquire({&spec, 1}, max_wait, answered, now_, fx_);
    wish->lease = wish->request->leases.front();
    wishes_.push_back(std::move(wish));
  }

  template <typename Do>
  void WithWish(Do act) {
    if (!wishes_.empty()) act(*wishes_[bytes_.Below(256) % wishes_.size()]);
  }

  // Only a guard can be asked for one, and it exists from the grant on.
  void TakeToken(Wish& wish) {
    if (wish.granted) wish.stop = LockTable::StopToken(*wish.lease);
  }

  void Release() {
    WithWish([this](Wish& wish) {
      auto answers = std::make_shared<int>(0);
      table_.Release(wish.lease, [answers](distlock::ReleaseOutcome) { ++*answers; }, now_, fx_);
      releases_.push_back(std::move(answers));
    });
  }

  void Downgrade() {
    WithWish([this](Wish& wish) {
      auto answers = std::make_shared<int>(0);
      table_.Downgrade(wish.lease, [answers](const std::optional<distlock::Refusal>&) { ++*answers; }, fx_);
      releases_.push_back(std::move(answers));
    });
  }

  int AnyLink() { return static_cast<int>(bytes_.Below(LockTable::kLinks)); }

  void Start() {
    const int link = table_.present();
    if (std::exchange(streaming_[link], true)) return;
    table_.OnStarted(now_, std::nullopt, std::nullopt, fx_);
  }

  void Break(int link, const std::optional<distlock::Refusal>& failure = std::nullopt) {
    streaming_[link] = false;
    table_.OnBroken(distlock::EndCause::kDisconnected, "broken", failure, now_, fx_, link);
  }

  void Send() {
    for (int link = 0; link < LockTable::kLinks; ++link) {
      for (v1::SessionRequest message; table_.Pack(now_, link, message); message.Clear()) {
        DISTLOCK_CHECK(message.commands_size() > 0);
      }
    }
  }

  void Hear(std::string_view bytes) {
    v1::SessionResponse response;
    const int link = AnyLink();
    if (!streaming_[link] || !response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    for (const v1::SessionEvent& event : response.events()) table_.OnEvent(event, now_, fx_, link);
  }

  google::protobuf::Duration Span() {
    google::protobuf::Duration span;
    if (bytes_.Flag()) {
      span.set_nanos(bytes_.Number<int32_t>());
      span.set_seconds(bytes_.Number<int64_t>());
    } else {
      span.set_seconds(bytes_.Below(8));
    }
    return span;
  }

  v1::Holder Holder() {
    v1::Holder holder;
    holder.mutable_acquire_time()->set_seconds(bytes_.Number<int64_t>());
    holder.mutable_acquire_time()->set_nanos(bytes_.Number<int32_t>());
    *holder.mutable_time_left() = Span();
    return holder;
  }

  // A broker's event about a command of ours, right or not.
  void HearComposed() {
    v1::SessionEvent event;
    const int link = AnyLink();
    event.set_id(bytes_.Below(32));
    switch (bytes_.Below(10)) {
      case 0:
        *event.mutable_opened()->mutable_validity() = Span();
        if (bytes_.Flag()) event.mutable_opened()->add_features("adopt");
        if (bytes_.Flag()) *event.mutable_opened()->mutable_heartbeat_interval() = Span();
        break;
      case 1:
        event.mutable_queued()->set_position(bytes_.Byte());
        break;
      case 2:
      case 3:
        event.mutable_granted()->set_echo_seq(bytes_.Below(4));
        event.mutable_granted()->set_fencing_token(bytes_.Below(3));
        *event.mutable_granted()->mutable_valid_for() = Span();
        break;
      case 4:
        event.mutable_refused()->set_reason(static_cast<v1::RefusalReason>(bytes_.Below(20)));
        if (bytes_.Flag()) *event.mutable_refused()->add_holders() = Holder();
        break;
      case 5:
        event.mutable_released()->set_outcome(static_cast<v1::ReleaseOutcome>(bytes_.Below(5)));
        break;
      case 6: {
        auto& ack = *event.mutable_heartbeat_ack();
        ack.set_seq(bytes_.Below(8));
        *ack.mutable_valid_for() = Span();
        for (size_t n = bytes_.Below(3); n > 0; --n) {
          auto& limit = *ack.add_limits();
          limit.set_acquire_id(bytes_.Below(32));
          *limit.mutable_valid_for() = Span();
        }
        break;
      }
      case 7:
        *(bytes_.Flag() ? event.mutable_at_risk()->mutable_valid_for() : event.mutable_renewed()->mutable_valid_for()) =
            Span();
        break;
      case 8:
        event.mutable_lost()->set_reason(static_cast<v1::LostReason>(bytes_.Below(8)));
        break;
      default:
        *event.mutable_draining()->mutable_time_left() = Span();
        break;
    }
    if (streaming_[link]) table_.OnEvent(event, now_, fx_, link);
  }

  void Status() {
    distlock::Refusal why;
    why.reason = static_cast<distlock::RefusalReason>(bytes_.Below(20));
    if (streaming_[table_.present()]) Break(table_.present(), why);
  }

  void Pass() {
    switch (bytes_.Below(4)) {
      case 0:
        break;
      case 1:
        now_ += bytes_.Number<uint16_t>() * kMs;
        break;
      case 2:
        now_ = std::max(now_, table_.wake_ns() == distlock::internal::kNever ? now_ : table_.wake_ns());
        break;
      default:
        now_ += bytes_.Byte() * kDay;
        break;
    }
    if (now_ > kLatest) now_ = kLatest;
    for (int link = 0; link < LockTable::kLinks; ++link) {
      if (streaming_[link] && table_.at(link).IsLapsed(now_)) Break(link);
    }
    table_.Tick(now_, fx_);
    Settle();
    Send();
    DISTLOCK_CHECK(table_.wake_ns() > now_);
  }

  void Settle() {
    std::exchange(fx_, {}).Run({});
    for (const auto& wish : wishes_) Check(*wish);
  }

  void Check(Wish& wish) {
    DISTLOCK_CHECK(wish.answers <= 1);
    const Lease& lease = *wish.lease;
    DISTLOCK_CHECK(!wish.ended || lease.phase == Lease::Phase::kEnded);
    wish.ended = lease.phase == Lease::Phase::kEnded;
    if (lease.phase == Lease::Phase::kHeld) DISTLOCK_CHECK(wish.granted);
    if (wish.ended && wish.stop.stop_possible()) DISTLOCK_CHECK(wish.stop.stop_requested());
  }

  // The clock is the machine's uptime; a century of it is enough.
  static constexpr int64_t kLatest = 36'500 * kDay;

  Bytes bytes_;
  int64_t now_ = 400 * kDay;
  bool streaming_[LockTable::kLinks] = {};
  int requests_ = 0;
  Effects fx_;
  LockTable table_{{.address = "nowhere",
                    .brokers = 2,
                    .label = "fuzz",
                    .unreachable_timeout_ns = 10'000 * kMs,
                    .connect_timeout_ns = 5000 * kMs,
                    .reissue_waits = true,
                    .random_id = [this] { return std::to_string(++requests_); }}};
  std::vector<std::unique_ptr<Wish>> wishes_;
  std::vector<std::shared_ptr<int>> releases_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Program(Bytes(data, size)).Run();
  return 0;
}
