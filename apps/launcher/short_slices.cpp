#include "apps/launcher/short_slices.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace verbena::apps {
namespace {

constexpr std::uint64_t kSliceNs = 100'000;  // the shortest possible slice

/// Like the kernel's sched_attr, first version; its header cannot be included together with <sched.h>.
struct SchedulingAttributes {
  std::uint32_t bytes = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t slice_ns = 0;  ///< the slice for SCHED_OTHER; in the kernel it is named for SCHED_DEADLINE
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

void ask_for_short_slices() {
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.slice_ns = kSliceNs;
  // The result is not needed: this is only a request.
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace verbena::apps
