// Costs as they are on this host: the real kernel, sessions and a server over shared memory, run for a
// moment.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "apps/scale/costs.hpp"

namespace verbena::apps::scale {

struct MeasureOptions {
  std::uint64_t rows = 512;  ///< of the table
  std::uint32_t width = 32;  ///< floats a row
};

/// `known`, what it leaves open measured; takes some seconds. Of several attempts the quickest counts: what
/// another process takes of the host's processors is no cost.
absl::StatusOr<Costs> measure(Costs known, const MeasureOptions& options);

}  // namespace verbena::apps::scale
