// SPDX-License-Identifier: Apache-2.0
//
// Which server is the primary, from what several sentinels say. Each sentinel may be stuck, cut off or wrong, so none
// of them is believed alone:
// - A failover needs the votes of a majority of the sentinels and raises the epoch of the configuration, so the highest
//   epoch is the newest: it is followed as soon as one sentinel shows it.
// - The first choice waits for the answers of a majority of the configured sentinels, and takes the highest epoch among
//   them. With Settings::few_suffice the answers of fewer are enough when they agree and kFewPatience has passed.
// - A lower epoch, or another address of the same epoch, is taken once a majority of the configured sentinels has
//   agreed on it for kOverrule: somebody has made their configuration anew. What the others showed then counts no more
//   until they show something else.
//
// Pure: no clock, IO or randomness. One thread. At most kMaxSentinels sentinels are known: the configured ones for
// ever, others for as long as they answer or are named by one that does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/types.h"
#include "store/store_url.h"

namespace distlock::store {

// The place of a sentinel in the order in which they became known; the configured ones come first, from 0.
using SentinelId = int;

struct SentinelReport {
  ServerAddress primary;
  uint64_t epoch = 0;                // of the configuration
  std::vector<ServerAddress> peers;  // the other sentinels that it knows

  bool operator==(const SentinelReport&) const = default;
};

class SentinelView {
 public:
  static constexpr core::Duration kAskEvery = std::chrono::seconds(1);
  static constexpr core::Duration kAskAgain = std::chrono::milliseconds(100);  // at the soonest, when in doubt
  static constexpr core::Duration kFewPatience = std::chrono::seconds(2);
  static constexpr core::Duration kOverrule = std::chrono::seconds(5);
  static constexpr core::Duration kForgetPeer = std::chrono::seconds(60);
  static constexpr size_t kMaxLearned = 9;

  struct Settings {
    std::vector<ServerAddress> configured;
    bool few_suffice = true;
  };

  // Inputs. Up and Down: the sentinel can be asked, or not. Each Ask is answered by one of Reported, NameUnknown and
  // NoAnswer, unless Down comes first.
  struct Tick {};
  struct Up {
    SentinelId id = 0;
  };
  struct Down {
    SentinelId id = 0;
  };
  struct Reported {
    SentinelId id = 0;
    SentinelReport report;
  };
  struct NameUnknown {
    SentinelId id = 0;
    std::vector<std::string> known;  // the names that it knows
  };
  struct NoAnswer {
    SentinelId id = 0;
  };
  struct Switched {  // it said +switch-master
    SentinelId id = 0;
  };
  struct PrimaryDoubted {};  // lost, silent, or no primary any more
  using Input = std::variant<Tick, Up, Down, Reported, NameUnknown, NoAnswer, Switched, PrimaryDoubted>;

  // Effects.
  struct Dial {
    SentinelId id = 0;
    ServerAddress address;
  };
  struct Drop {
    SentinelId id = 0;
  };
  struct Ask {
    SentinelId id = 0;
  };
  struct PrimaryAt {  // also when only the epoch is new
    ServerAddress address;
    uint64_t epoch = 0;
    SentinelId by = 0;
  };
  struct Warn {
    std::string text;
  };
  struct WrongName {  // no sentinel that answers knows the name, and a majority has answered
    std::vector<std::string> known;
  };
  using Effect = std::variant<Dial, Drop, Ask, PrimaryAt, Warn, WrongName>;

  explicit SentinelView(Settings settings);

  // `now` never goes back. Call it with Tick at the start and at NextDeadline.
  void Step(core::Instant now, const Input& input, std::vector<Effect>& effects);
  core::Instant NextDeadline() const;  // kNever: none

  struct Choice {
    ServerAddress address;
    uint64_t epoch = 0;

    bool operator==(const Choice&) const = default;
  };
  const std::optional<Choice>& chosen() const { return chosen_; }
  size_t known() const { return sentinels_.size(); }
  size_t answering() const;
  // Each of a majority of the configured sentinels shows the choice, and was asked then or later. The beginning of
  // time: fewer show it.
  core::Instant ShownByMajoritySince() const;
  size_t configured() const { return settings_.configured.size(); }
  size_t majority() const { return configured() / 2 + 1; }

 private:
  struct Sentinel {
    ServerAddress address;
    bool configured = false;
    bool up = false;
    bool asking = false;  // an Ask is not answered yet
    core::Instant asked{};
    core::Instant ask_at{};
    core::Instant named_at{};              // learned ones: when a peer last named it, or it was up
    std::optional<SentinelReport> report;  // of this connection
    core::Instant report_asked{};          // when it was asked for that
    bool knows_no_name = false;            // its last answer, of this connection
    std::vector<std::string> names;
    std::optional<Choice> overruled;  // what a majority has overruled it in
  };

  void Handle(core::Instant now, const Input& input, std::vector<Effect>& effects);
  void HandleReport(core::Instant now, const Reported& input, std::vector<Effect>& effects);
  void Learn(core::Instant now, const std::vector<ServerAddress>& peers, std::vector<Effect>& effects);
  void ForgetPeers(core::Instant now, std::vector<Effect>& effects);
  void ChooseFirst(core::Instant now, std::vector<Effect>& effects);
  void Follow(std::vector<Effect>& effects);
  void Overrule(core::Instant now, std::vector<Effect>& effects);
  void CheckName(std::vector<Effect>& effects);
  void Take(const Choice& choice, std::vector<Effect>& effects);
  void AskDue(core::Instant now, std::vector<Effect>& effects);
  Sentinel* Find(SentinelId id);
  // The shown choice, unless that was overruled.
  std::optional<Choice> Shown(const Sentinel& sentinel) const;
  // How many of the configured show exactly that.
  size_t Supporters(const Choice& choice) const;
  // The highest epoch that is shown; of several addresses in it, the one that most of the configured show.
  std::optional<Choice> Newest() const;

  const Settings settings_;
  std::map<SentinelId, Sentinel> sentinels_;
  SentinelId next_id_ = 0;
  bool begun_ = false;
  core::Instant now_{};
  std::optional<Choice> chosen_;
  std::optional<core::Instant> first_answer_;  // while nothing is chosen
  std::optional<Choice> rival_;                // that a majority shows instead of chosen_
  core::Instant rival_since_{};
  bool wrong_name_told_ = false;
};

}  // namespace distlock::store
