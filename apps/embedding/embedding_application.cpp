#include "apps/embedding/embedding_application.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <new>

namespace verbena::apps {

/// The only exception to be expected here is the end of memory.
template <class Run>
absl::Status EmbeddingApplication::with_enough_memory(const Run& run) const {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(fmt::format("out of memory: expected {}", needs_less_memory()));
  }
}

absl::Status EmbeddingApplication::check(std::uint32_t workers) {
  if (absl::Status status = check_options(); !status.ok()) return status;
  return with_enough_memory([&] { return check_data(workers); });
}

absl::Status EmbeddingApplication::run_worker(WorkerContext& context) const {
  if (absl::Status status = check_options(); !status.ok()) return status;
  return with_enough_memory([&] { return train_as_worker(context); });
}

absl::Status EmbeddingApplication::run_baseline(BaselineContext& context) const {
  if (absl::Status status = check_options(); !status.ok()) return status;
  return with_enough_memory([&] { return train_alone(context); });
}

absl::Status EmbeddingApplication::check_memory(double bytes, std::string_view what, std::string_view fewer) {
  const double available =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (bytes <= available) return absl::OkStatus();
  constexpr double kGiB = 1 << 30;
  return absl::InvalidArgumentError(
      fmt::format("{} about {:.1f} GiB, the machine has {:.1f} GiB: expected {}", what, bytes / kGiB,
                  available / kGiB, fewer));
}

}  // namespace verbena::apps
