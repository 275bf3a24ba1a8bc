#include "apps/conditions/slowdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

#include "apps/conditions/fields.hpp"
#include "base/decimal.hpp"

namespace verbena::apps {
namespace {

using std::chrono::nanoseconds;

constexpr double kMostFactor = 1000;
constexpr std::uint32_t kMostCompetitors = 64;
/// A paused worker does not answer its transport; longer pauses would look like its death.
constexpr nanoseconds kLongestPause = std::chrono::seconds(10);
constexpr nanoseconds kLongestItem = std::chrono::seconds(1);

absl::Status parse_field(std::string_view name, std::string_view value, SlowRule& rule) {
  const auto expected = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}={}: {} is expected", name, value, what));
  };
  if (name == "worker") {
    if (value == "all") return absl::OkStatus();
    rule.worker = base::parse_decimal<std::uint32_t>(value);
    return rule.worker ? absl::OkStatus() : expected("a worker's rank, from 0, or all");
  }
  if (name == "factor") {
    const std::optional<double> factor = base::parse_decimal<double>(value);
    if (!factor || !(*factor >= 1 && *factor <= kMostFactor)) {
      return expected(fmt::format("a number from 1 to {}", kMostFactor));
    }
    rule.factor = *factor;
    return absl::OkStatus();
  }
  if (name == "item") {
    const std::optional<nanoseconds> item = parse_duration(value);
    if (!item || *item <= nanoseconds::zero() || *item > kLongestItem) {
      return expected("a time such as 500ns, of at most 1s,");
    }
    rule.item = *item;
    return absl::OkStatus();
  }
  if (name == "pause") {
    const std::optional<nanoseconds> pause = parse_duration(value);
    if (!pause || *pause <= nanoseconds::zero() || *pause > kLongestPause) {
      return expected("a time such as 200ms, of at most 10s,");
    }
    rule.pause = *pause;
    return absl::OkStatus();
  }
  if (name == "every") {
    const std::optional<std::int64_t> every = base::parse_decimal<std::int64_t>(value);
    if (!every || *every < 1) return expected("a number of clocks, at least 1,");
    rule.every = *every;
    return absl::OkStatus();
  }
  if (name == "competitors") {
    const std::optional<std::uint32_t> competitors = base::parse_decimal<std::uint32_t>(value);
    if (!competitors || *competitors < 1 || *competitors > kMostCompetitors) {
      return expected(fmt::format("a whole number from 1 to {}", kMostCompetitors));
    }
    rule.competitors = *competitors;
    return absl::OkStatus();
  }
  if (name == "core") {
    rule.core = base::parse_decimal<std::uint32_t>(value);
    return rule.core ? absl::OkStatus() : expected("a core's number, from 0,");
  }
  return absl::InvalidArgumentError(fmt::format("there is no {}=", name));
}

nanoseconds read_clock(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

}  // namespace

absl::StatusOr<SlowRule> parse_slow(std::string_view text) {
  constexpr std::string_view kForm =
      "worker=R|all,factor=F or worker=R|all,item=TIME or worker=R|all,pause=TIME,every=CLOCKS or "
      "worker=R|all,competitors=N[,core=K]";
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": {}{}{} is expected", text, why, why.empty() ? "" : "; ", kForm));
  };
  const auto fields = split_fields(text);
  if (!fields) return refuse("");
  SlowRule rule;
  std::vector<std::string_view> seen;
  for (const auto& [name, value] : *fields) {
    if (absl::Status status = parse_field(name, value, rule); !status.ok()) {
      return refuse(std::string(status.message()));
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      return refuse(fmt::format("{}= comes twice", name));
    }
    seen.push_back(name);
  }
  const auto has = [&](std::string_view name) {
    return std::find(seen.begin(), seen.end(), name) != seen.end();
  };
  const bool slows = has("factor") || has("item") || has("pause") || has("competitors");
  if (!has("worker") || !slows || has("pause") != has("every") || (has("core") && !has("competitors")))
    return refuse("");
  return rule;
}

SlowdownClock system_slowdown_clock() {
  return {.now = [] { return read_clock(CLOCK_MONOTONIC); },
          .processor_time = [] { return read_clock(CLOCK_THREAD_CPUTIME_ID); },
          .sleep = [](nanoseconds time) { std::this_thread::sleep_for(time); }};
}

Slowdown::Slowdown(const std::vector<SlowRule>& rules, std::uint32_t worker, SlowdownClock clock)
    : clock_(std::move(clock)) {
  for (const SlowRule& rule : rules) {
    if (rule.worker && *rule.worker != worker) continue;
    factor_ *= rule.factor;
    item_ += rule.item;
    if (rule.every == 0) continue;
    // The golden ratio spreads any number of workers.
    constexpr double kGolden = 0.618033988749895;
    const auto shift = static_cast<std::int64_t>(kGolden * worker * static_cast<double>(rule.every));
    pauses_.push_back({rule.pause, rule.every, shift});
  }
}

void Slowdown::computing_begins() {
  if (factor_ <= 1 && item_ == Duration::zero()) return;
  computing_ = true;
  began_ = clock_.now();
  processor_time_began_ = clock_.processor_time();
}

void Slowdown::computing_ends(std::uint64_t items) {
  if (!std::exchange(computing_, false)) return;
  const Duration processor_time = clock_.processor_time() - processor_time_began_;
  const Duration ended = clock_.now();
  const std::chrono::duration<double, std::nano> computing =
      item_ == Duration::zero() ? processor_time : item_ * static_cast<std::int64_t>(items);
  const auto wanted = std::chrono::duration_cast<Duration>(factor_ * computing);
  owed_ += std::max(Duration::zero(), wanted - (ended - began_));
  if (owed_ <= Duration::zero()) return;
  // No sleep ends exactly on time; if this one is too long, the next one is shorter by the difference.
  clock_.sleep(owed_);
  owed_ -= clock_.now() - ended;
}

void Slowdown::clock_ends() {
  if (pauses_.empty()) return;
  ++clocks_;
  for (const Pause& pause : pauses_) {
    if ((clocks_ + pause.shift) % pause.every == 0) clock_.sleep(pause.length);
  }
}

}  // namespace verbena::apps
