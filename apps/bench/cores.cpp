#include "apps/bench/cores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "base/cores.hpp"

namespace verbena::apps::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kMostKeptWaiting =
    0.05;  // part of the time; with its own core a thread waits less than a hundredth

}  // namespace

std::string shared_cores(const CoreUse& use) {
  if (use.usable > 0 && use.usable < use.needed) {
    return fmt::format("both sides poll, and there is one core for them ({} are needed)", use.needed);
  }
  if (use.quota_cores && *use.quota_cores < use.needed) {
    return fmt::format("the control group may use {:.3g} cores, and {} are polled on", *use.quota_cores,
                       use.needed);
  }
  if (use.throttled) return "the control group came to its quota of processor time meanwhile";
  if (use.kept_waiting && use.seconds > 0 && *use.kept_waiting > kMostKeptWaiting * use.seconds) {
    return fmt::format("others ran on the core for {:.0f} % of the time",
                       100 * std::min(1.0, *use.kept_waiting / use.seconds));
  }
  return "";
}

CoreWatch::CoreWatch(std::uint32_t needed, fs::path root)
    : needed_(needed), root_(std::move(root)), before_(now()) {}

CoreWatch::Counts CoreWatch::now() const {
  Counts counts;
  counts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  double ran_ns = 0;
  double waited_ns = 0;
  if (std::ifstream file(root_ / "proc/thread-self/schedstat"); file >> ran_ns >> waited_ns) {
    counts.kept_waiting = waited_ns / 1e9;
  }
  std::ifstream file(base::control_group(root_) / "cpu.stat");
  std::uint64_t count = 0;
  for (std::string name; file >> name >> count;) {
    if (name == "nr_throttled") counts.throttled = count;
  }
  return counts;
}

CoreUse CoreWatch::so_far() const {
  const Counts after = now();
  CoreUse use{.needed = needed_,
              .usable = base::cores_to_run_on(),
              .quota_cores = base::core_quota(root_),
              .throttled = after.throttled > before_.throttled,
              .seconds = after.seconds - before_.seconds,
              .kept_waiting = {}};
  if (after.kept_waiting && before_.kept_waiting)
    use.kept_waiting = *after.kept_waiting - *before_.kept_waiting;
  return use;
}

}  // namespace verbena::apps::bench
