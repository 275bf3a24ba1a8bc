// The configuration of a job as it lies in its store.
//
// Keys, below a prefix: "config", the newest one; "suspects/ADDRESS", why somebody thinks that the process at
// that address should be ended; "newcomers/SERVER/COPY", the address of a copy that wants to join;
// "joined/ADDRESS", of one that has. Whoever decides reads these (Controller).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cluster/configuration.hpp"
#include "cluster/mirror.hpp"
#include "cluster/store.hpp"

namespace verbena::cluster {

inline constexpr const char* kConfigurationKey = "config";
inline constexpr const char* kSuspectsPrefix = "suspects/";
inline constexpr const char* kNewcomersPrefix = "newcomers/";
inline constexpr const char* kJoinedPrefix = "joined/";

/// Whoever decides: see ConfigurationSource.
struct Decider {
  bool ends_who_is_left_out = true;
  std::chrono::milliseconds longest_absence{0};
};

/// Thread safety: belongs to one thread.
class StoredConfiguration final : public ConfigurationSource {
 public:
  /// `decided`: see ConfigurationSource; not nullptr.
  StoredConfiguration(std::unique_ptr<Store> store, const std::string& prefix,
                      std::shared_ptr<const std::atomic<std::uint64_t>> decided, Decider decider = {});

  /// If there is none yet, this is to be the first one. All processes that say so say the same.
  void propose(const Configuration& first);
  /// This process, at that address, wants to become a copy of the server, with a number that none had before.
  void join(std::uint32_t server, std::uint32_t copy, const std::string& address);

  [[nodiscard]] const Configuration& newest() const override { return newest_; }
  [[nodiscard]] std::uint64_t decided() const override { return decided_->load(std::memory_order_acquire); }
  [[nodiscard]] bool ends_who_is_left_out() const override { return decider_.ends_who_is_left_out; }
  [[nodiscard]] std::chrono::milliseconds longest_absence() const override {
    return decider_.longest_absence;
  }
  void poll(transport::TimePoint now) override;
  [[nodiscard]] transport::TimePoint next_poll() const override { return next_poll_; }
  void expect_change() override;
  void suspect(const std::string& address, const std::string& why) override;
  void has_joined(const std::string& address) override;

 private:
  void put(Transaction transaction, std::function<void(bool is_there)> done);
  void put_to_say();
  void put_first();
  void take_newest();

  const std::string prefix_;
  const std::shared_ptr<const std::atomic<std::uint64_t>> decided_;
  const Decider decider_;
  // In this order: the mirror ends before its store.
  const std::unique_ptr<Store> store_;
  Mirror mirror_;
  Configuration newest_;
  Revision taken_ = 0;  ///< of the entry that newest_ was in
  std::optional<Configuration> first_;
  std::deque<std::pair<std::string, std::string>> to_say_;  ///< keys and values, the next one first
  bool is_saying_ = false;
  bool is_proposing_ = false;
  bool expects_change_ = false;
  transport::TimePoint changed_at_ = transport::TimePoint::min();
  std::set<std::string> suspects_;  ///< that were told, or are being told
  transport::TimePoint now_ = transport::TimePoint::min();
  transport::TimePoint next_poll_ = transport::TimePoint::min();
};

}  // namespace verbena::cluster
