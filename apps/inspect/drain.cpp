#include "apps/inspect/drain.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <random>
#include <utility>

#include "apps/inspect/launcher_store.hpp"
#include "base/return_if_error.hpp"
#include "job/server_place.hpp"

namespace verbena::apps::inspect {
namespace {

/// How often the answer is looked for.
constexpr auto kBetweenLooks = std::chrono::milliseconds(5);

std::string fresh_mark() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

absl::StatusOr<std::string> drain(const FoundJob& job, std::shared_ptr<const transport::Secret> secret,
                                  const DrainRequest& request, std::chrono::milliseconds patience) {
  const std::optional<std::int64_t> launcher = job::ServerPlace::run_of(job.name);
  if (!launcher) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: no launcher on this host has started this job: expected one of `verbena run` on one host; over "
        "several, send the process SIGTERM",
        job.name));
  }
  LauncherStore store(*launcher, std::move(secret), patience);
  const std::string mark = fresh_mark();
  RETURN_IF_ERROR(store.put(kDrainsPrefix + mark, encode(request)));
  for (;;) {
    const absl::StatusOr<std::optional<std::string>> answer = store.get(kDrainedPrefix + mark);
    if (!answer.ok()) return answer.status();
    if (*answer) {
      store.remove(kDrainedPrefix + mark).IgnoreError();  // nobody else asks for it
      return decode_drain_answer(**answer);
    }
    store.wait(kBetweenLooks);
  }
}

}  // namespace verbena::apps::inspect
