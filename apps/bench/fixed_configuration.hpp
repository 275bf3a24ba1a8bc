// The copies of a benchmark's server: nobody dies there, so that the first configuration is the only one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/configuration.hpp"

namespace verbena::apps::bench {

/// Thread safety: decide() may be called, once, while another thread uses the rest.
class FixedConfiguration final : public cluster::ConfigurationSource {
 public:
  /// Of the only server: where its copies are, first the one that serves.
  void decide(std::vector<std::string> chain) {
    only_ = {.number = 1, .servers = {std::move(chain)}, .joining = {}};
    is_decided_.store(true, std::memory_order_release);
  }

  [[nodiscard]] const cluster::Configuration& newest() const override { return is_decided() ? only_ : none_; }
  [[nodiscard]] std::uint64_t decided() const override { return 0; }
  void poll(transport::TimePoint /*now*/) override {}
  [[nodiscard]] transport::TimePoint next_poll() const override {
    return is_decided() ? transport::TimePoint::max() : transport::TimePoint::min();
  }
  void expect_change() override {}
  void suspect(const std::string& /*address*/, const std::string& /*why*/) override {}
  void has_joined(const std::string& /*address*/) override {}

 private:
  [[nodiscard]] bool is_decided() const { return is_decided_.load(std::memory_order_acquire); }

  const cluster::Configuration none_{};
  cluster::Configuration only_;
  std::atomic<bool> is_decided_ = false;
};

}  // namespace verbena::apps::bench
