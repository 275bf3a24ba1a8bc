// Measures the costs on this host: it runs the real kernel, sessions and a server over shared memory for a
// moment.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "apps/scale/costs.hpp"

namespace verbena::apps::scale {

struct MeasureOptions {
  std::uint64_t rows = 512;  ///< rows of the table
  std::uint32_t width = 32;  ///< floats a row
};

/// Returns `known`, with the costs that it leaves open measured; takes some seconds. The quickest of several
/// attempts counts: time for which another process uses the host's processors is no cost.
absl::StatusOr<Costs> measure(Costs known, const MeasureOptions& options);

}  // namespace verbena::apps::scale
