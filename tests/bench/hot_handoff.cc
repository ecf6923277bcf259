// SPDX-License-Identifier: Apache-2.0
// One lock that many parties want all the time.
#include <optional>
#include <utility>

#include "bench/session.h"

namespace distlock::bench {
namespace {

class HotLoad final : public Load {
 public:
  HotLoad(std::vector<std::string> targets, size_t parties)
      : Load(1), targets_(std::move(targets)), places_(parties), busy_(parties) {
    spec_.set_key("contended");
  }

  void Start() override {
    sessions_.emplace(places_.size(), [this](size_t i) {
      return std::make_unique<Session>(
          targets_[i % targets_.size()],
          [this, i](Session& session, const v1::SessionEvent& event) { Handle(places_[i], session, event); }, *this);
    });
    for (size_t i = 0; i < places_.size(); ++i) {
      (*sessions_)[i].Do([this, i](Session& session) { Ask(places_[i], session); });
    }
  }

  void Stop() override {
    AwaitRest(busy_);
    sessions_->Close();
  }

 private:
  // Guarded by the lock of the party's session.
  struct Place {
    int64_t acquire_id = 0;
    int64_t next_id = 2;
    bool asked = false;
  };

  void Ask(Place& place, Session& session) const {
    place.asked = true;
    place.acquire_id = place.next_id++;
    session.Send(EncodeAcquire(place.acquire_id, spec_));
  }

  void Handle(Place& place, Session& session, const v1::SessionEvent& event) {
    if (event.has_granted() && place.asked && event.id() == place.acquire_id) return OnGranted(place, session, event);
    if (IsReleased(event)) {
      // A party that goes on has asked again meanwhile.
      if (!place.asked) --busy_;
    } else if (!event.has_queued() || event.id() != place.acquire_id) {
      Fail(event.ShortDebugString());
    }
  }

  void OnGranted(Place& place, Session& session, const v1::SessionEvent& event) {
    const int64_t token = event.granted().fencing_token();
    if (token <= std::exchange(last_token_, token)) Fail("the token did not grow: " + event.ShortDebugString());
    if (released_at_ != 0) Record(0, released_at_);
    CountPair(0);
    place.asked = false;
    released_at_ = NowNanos();
    session.Send(EncodeRelease(place.next_id++, place.acquire_id));
    if (!stopping()) Ask(place, session);
  }

  const std::vector<std::string> targets_;
  v1::LockSpec spec_;
  std::vector<Place> places_;
  std::atomic<size_t> busy_;  // parties that have not given it back for the last time
  // For the streams' thread.
  int64_t last_token_ = 0;
  int64_t released_at_ = 0;
  std::optional<Sessions> sessions_;
};

}  // namespace

std::unique_ptr<Load> HotHandoff(const std::vector<std::string>& targets, size_t parties) {
  return std::make_unique<HotLoad>(targets, parties);
}

}  // namespace distlock::bench
