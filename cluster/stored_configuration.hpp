// The configuration of a job as it lies in its store.
//
// Keys, below a prefix: "config", the newest one; "suspects/ADDRESS", why somebody thinks that the process at
// that address should be ended. Whoever decides reads these (apps/launcher).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cluster/configuration.hpp"
#include "cluster/mirror.hpp"
#include "cluster/store.hpp"

namespace verbena::cluster {

inline constexpr const char* kConfigurationKey = "config";
inline constexpr const char* kSuspectsPrefix = "suspects/";

/// Thread safety: belongs to one thread.
class StoredConfiguration final : public ConfigurationSource {
 public:
  StoredConfiguration(std::unique_ptr<Store> store, const std::string& prefix);

  /// If there is none yet, this is to be the first one. All processes that say so say the same.
  void propose(const Configuration& first);

  [[nodiscard]] const Configuration& newest() const override { return newest_; }
  void poll(transport::TimePoint now) override;
  [[nodiscard]] transport::TimePoint next_poll() const override { return next_poll_; }
  void expect_change() override;
  void suspect(const std::string& address, const std::string& why) override;

 private:
  void put(Transaction transaction, std::function<void(bool is_there)> done);
  void put_first();
  void take_newest();

  const std::string prefix_;
  // In this order: the mirror ends before its store.
  const std::unique_ptr<Store> store_;
  Mirror mirror_;
  Configuration newest_;
  Revision taken_ = 0;  ///< of the entry that newest_ was in
  std::optional<Configuration> first_;
  bool is_proposing_ = false;
  bool expects_change_ = false;
  std::set<std::string> suspects_;  ///< that were told, or are being told
  transport::TimePoint now_ = transport::TimePoint::min();
  transport::TimePoint next_poll_ = transport::TimePoint::min();
};

}  // namespace verbena::cluster
