// The store of the process that has it in its own memory: on one host, the launcher.
#pragma once

#include <vector>

#include "cluster/store.hpp"
#include "cluster/store_state.hpp"

namespace verbena::cluster {

/// Answers in the poll() after the request. REQUIRES: `state` outlives it. All that use a state tell it the
/// time of one clock.
class LocalStore final : public Store {
 public:
  explicit LocalStore(StoreState& state) : state_(state) {}

  void add_descriptors(std::vector<pollfd>& /*wanted*/) const override {}

 private:
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint next_step() const override;

  StoreState& state_;
};

}  // namespace verbena::cluster
