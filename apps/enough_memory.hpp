// The errors of applications if there is not enough memory.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <new>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::apps {

/// INVALID_ARGUMENT if this machine has less memory than so many bytes. `what` names what needs them, `fewer`
/// what the user should do instead.
inline absl::Status check_memory(double bytes, std::string_view what, std::string_view fewer) {
  const double available =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (bytes <= available) return absl::OkStatus();
  constexpr double kGiB = 1 << 30;
  return absl::InvalidArgumentError(
      fmt::format("{} about {:.1f} GiB, the machine has {:.1f} GiB: expected {}", what, bytes / kGiB,
                  available / kGiB, fewer));
}

/// Returns what `run` returns; RESOURCE_EXHAUSTED if memory has run out, which is the only exception expected
/// from `run`. `fewer` as in check_memory().
template <class Run>
absl::Status with_enough_memory(std::string_view fewer, const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(fmt::format("out of memory: expected {}", fewer));
  }
}

}  // namespace verbena::apps
