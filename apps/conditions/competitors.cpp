#include "apps/conditions/competitors.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <cerrno>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

std::vector<std::uint32_t> cores_of(const cpu_set_t& set) {
  std::vector<std::uint32_t> cores;
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// "0-3,8".
std::string list(const std::vector<std::uint32_t>& cores) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < cores.size(); first = ++last) {
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", cores[first]);
    if (last > first) fmt::format_to(std::back_inserter(text), "-{}", cores[last]);
  }
  return text;
}

bool is_about(const SlowRule& rule, std::uint32_t worker) {
  return rule.competitors > 0 && (!rule.worker || *rule.worker == worker);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Competitors>> Competitors::start(const std::vector<SlowRule>& rules,
                                                                std::uint32_t worker) {
  std::unique_ptr<Competitors> competitors(new Competitors());
  std::uint32_t count = 0;
  for (const SlowRule& rule : rules) count += is_about(rule, worker) ? rule.competitors : 0;
  if (count == 0) return competitors;
  RETURN_IF_ERROR(competitors->pin(rules, worker));
  RETURN_IF_ERROR(competitors->run(count));
  return competitors;
}

absl::Status Competitors::pin(const std::vector<SlowRule>& rules, std::uint32_t worker) {
  const auto cannot = [&](int error, const std::string& what) {
    return absl::ErrnoToStatus(error, fmt::format("--slow: worker {}: {}", worker, what));
  };
  if (::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0)
    return cannot(errno, "cannot ask for its cores");
  const std::vector<std::uint32_t> cores = cores_of(allowed_);
  std::optional<std::uint32_t> chosen;
  for (const SlowRule& rule : rules) {
    if (!is_about(rule, worker) || !rule.core) continue;
    if (chosen && *chosen != *rule.core) {
      return absl::InvalidArgumentError(fmt::format("--slow: worker {} cannot be on both core {} and core {}",
                                                    worker, *chosen, *rule.core));
    }
    chosen = rule.core;
  }
  core_ = chosen.value_or(cores[worker % cores.size()]);
  if (core_ >= CPU_SETSIZE || !CPU_ISSET(core_, &allowed_)) {
    return absl::InvalidArgumentError(fmt::format(
        "--slow core={}: worker {} may use these cores of its host: {}", core_, worker, list(cores)));
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core_, &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) {
    const int error = errno;
    return cannot(error, fmt::format("cannot be pinned to core {}", core_));
  }
  pinned_ = true;
  return absl::OkStatus();
}

absl::Status Competitors::run(std::uint32_t count) {
  try {
    for (std::uint32_t i = 0; i < count; ++i) {
      threads_.emplace_back([this] {  // runs on the core of the thread that starts it
        ::pthread_setname_np(::pthread_self(), "competitor");
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        fmt::format("--slow: cannot start {} threads: {}", count, error.what()));
  }
  return absl::OkStatus();
}

Competitors::~Competitors() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  if (pinned_) ::sched_setaffinity(0, sizeof allowed_, &allowed_);
}

}  // namespace verbena::apps
