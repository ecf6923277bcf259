// SPDX-License-Identifier: Apache-2.0
#include "bench/readers.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr size_t kParties = kReaders;
constexpr int64_t kAcquireId = 1;  // free again once its lease is over
constexpr int64_t kReleaseId = 2;

// One lock: its commands, made beforehand, and the latest tokens that clients have seen.
struct Shelf {
  explicit Shelf(const std::string& key) {
    v1::LockSpec spec = Spec(key, true);
    spec.set_policy(v1::QUEUE_POLICY_FAIR);
    write = EncodeAcquire(kAcquireId, spec);
    spec.set_mode(v1::LOCK_MODE_SHARED);
    read = EncodeAcquire(kAcquireId, spec);
  }

  std::string read;
  std::string write;
  std::mutex mu;
  int64_t last = 0;        // guarded by mu, as below
  int64_t last_write = 0;  // of a writer
};

class ReadersLoad final : public Load {
 public:
  ReadersLoad(const Lab& lab, size_t locks, int writer_percent)
      : Load(kParties), lab_(lab), writer_percent_(writer_percent) {
    static int count = 0;
    const std::string name = "shelf-" + std::to_string(++count) + "-";
    for (size_t i = 0; i < locks; ++i) shelves_.emplace_back(name + std::to_string(i));
    for (size_t i = 0; i < kParties; ++i) parties_.emplace_back(i, locks);
  }

  void Start() override {
    sessions_ = OpenSessions(kParties, [this](size_t i) {
      return std::make_unique<Session>(
          lab_.broker(0).target(), [this, i](Session& session, const SeenEvent& event) { Handle(i, session, event); });
    });
    pulse_.emplace(Pointers(sessions_));
    {
      std::lock_guard lock(mu_);
      busy_ = kParties;
    }
    for (size_t i = 0; i < kParties; ++i) {
      sessions_[i]->Do([this, i](Session& session) { Ask(parties_[i], session); });
    }
  }

  void Stop() override {
    {
      std::unique_lock lock(mu_);
      rested_.wait_for(lock, kPatience, [this] { return busy_ == 0 || !error().empty(); });
      if (busy_ != 0) Fail("some requests were never answered");
    }
    pulse_.reset();
    for (const auto& session : sessions_) {
      const std::string problem = session->Close();
      if (!problem.empty()) Fail(problem);
    }
    sessions_.clear();
  }

  Histogram WriterLatencies() const {
    Histogram all;
    for (const Party& party : parties_) all.Merge(party.write_latency);
    return all;
  }

 private:
  // Belongs to its session's handler.
  struct Party {
    Party(size_t seed, size_t locks) : random(static_cast<uint32_t>(seed)), last_token(locks) {}

    std::mt19937 random;              // NOLINT: the same choices in every round
    std::vector<int64_t> last_token;  // by lock
    Histogram write_latency;
    size_t lock = 0;
    bool writing = false;
    bool holding = false;
    int64_t sent = 0;
  };

  void Ask(Party& party, Session& session) {
    party.lock = party.random() % shelves_.size();
    party.writing = static_cast<int>(party.random() % 100) < writer_percent_;
    const Shelf& shelf = shelves_[party.lock];
    party.sent = NowNanos();
    session.Send(party.writing ? shelf.write : shelf.read);
  }

  void Handle(size_t i, Session& session, const SeenEvent& event) {
    Party& party = parties_[i];
    if (event.kind == v1::SessionEvent::kGranted && event.id == kAcquireId && !party.holding) {
      OnGranted(i, session, event);
    } else if (event.kind == v1::SessionEvent::kReleased && event.outcome == v1::RELEASE_OUTCOME_RELEASED &&
               party.holding) {
      party.holding = false;
      tally(i).pairs.fetch_add(1, std::memory_order_relaxed);
      if (!stopping()) return Ask(party, session);
      std::lock_guard lock(mu_);
      if (--busy_ == 0) rested_.notify_all();
    } else if (event.kind != v1::SessionEvent::kQueued || event.id != kAcquireId || party.holding) {
      Fail(Describe(event));
    }
  }

  void OnGranted(size_t i, Session& session, const SeenEvent& event) {
    Party& party = parties_[i];
    if (recording()) {
      (party.writing ? party.write_latency : tally(i).op_latency).Record(NowNanos() - party.sent);
    }
    if (event.token <= party.last_token[party.lock]) Fail("the fencing token did not grow: " + Describe(event));
    party.last_token[party.lock] = event.token;
    party.holding = true;
    if (!IsInOrder(shelves_[party.lock], party.writing, event.token)) {
      Fail("a writer was not alone: " + Describe(event));
    }
    session.Send(release_);
  }

  // Holders release only after they have seen their grant. So holders see their grants in the order of the grants; only
  // readers that share the lock may see theirs in another order.
  static bool IsInOrder(Shelf& shelf, bool writing, int64_t token) {
    std::lock_guard lock(shelf.mu);
    const bool in_order = token > (writing ? shelf.last : shelf.last_write);
    shelf.last = std::max(shelf.last, token);
    if (writing) shelf.last_write = token;
    return in_order;
  }

  const Lab& lab_;
  const int writer_percent_;
  const std::string release_ = EncodeRelease(kReleaseId, kAcquireId);
  std::deque<Shelf> shelves_;
  std::deque<Party> parties_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::optional<Pulse> pulse_;
  std::mutex mu_;
  std::condition_variable rested_;
  size_t busy_ = 0;  // guarded by mu_: parties not at rest
};

}  // namespace

Sample ReadersAndWriters(const Lab& lab, size_t locks, int writer_percent) {
  ReadersLoad load(lab, locks, writer_percent);
  Sample sample = Measure(lab, load, true);
  std::map<std::string, double>& values = sample.values;
  values["ops/s"] = 2 * values["pairs/s"];
  values["reader p50 µs"] = values["op p50 µs"];
  values["reader p99 µs"] = values["op p99 µs"];
  if (writer_percent > 0) {
    const Histogram writers = load.WriterLatencies();
    values["writer p50 µs"] = writers.Micros(0.5);
    values["writer p99 µs"] = writers.Micros(0.99);
  }
  return sample;
}

}  // namespace distlock::bench
