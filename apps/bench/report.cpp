#include "apps/bench/report.hpp"

#include <fmt/format.h>

namespace verbena::apps::bench {

namespace {

std::string time_text(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.1f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.2f} us", nanoseconds / 1e3);
  return fmt::format("{:.2f} ms", nanoseconds / 1e6);
}

std::string size_text(std::size_t bytes) {
  if (bytes >= (std::size_t{1} << 20) && bytes % (std::size_t{1} << 20) == 0) {
    return fmt::format("{} MiB", bytes >> 20);
  }
  if (bytes >= 1024 && bytes % 1024 == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

std::string verdict(const Result& result) {
  if (!result.yardstick) return "";
  std::string text = fmt::format("{:6.2f} x {} of {}", *result.ratio(), result.yardstick->name,
                                 time_text(result.yardstick->nanoseconds));
  if (const auto budget = result.yardstick->budget) {
    text += fmt::format(", budget {:.2g}: {}", *budget, result.misses_budget() ? "MISSED" : "kept");
  }
  return text;
}

}  // namespace

std::optional<double> Result::ratio() const {
  if (!yardstick || yardstick->nanoseconds <= 0) return std::nullopt;
  return nanoseconds(0.5) / yardstick->nanoseconds;
}

bool Result::misses_budget() const {
  return yardstick && yardstick->budget && ratio() && *ratio() > *yardstick->budget;
}

std::string to_table(const std::vector<Result>& results) {
  std::string table =
      fmt::format("{:<16}{:>9}{:>11}{:>11}{:>11}{:>11}{:>10}{:>10}  {}\n", "operation", "size", "min", "p50",
                  "p99", "p99.9", "M msg/s", "MB/s", "p50 beside the yardstick");
  for (const Result& result : results) {
    table += fmt::format("{:<16}{:>9}{:>11}{:>11}{:>11}{:>11}{:>10.3f}{:>10.0f}  {}\n", result.operation,
                         size_text(result.bytes), time_text(result.nanoseconds(0)),
                         time_text(result.nanoseconds(0.5)), time_text(result.nanoseconds(0.99)),
                         time_text(result.nanoseconds(0.999)), result.per_second() / 1e6,
                         result.per_second() * static_cast<double>(result.bytes) / 1e6, verdict(result));
  }
  table += "\nWhat is timed\n";
  std::string last;
  for (const Result& result : results) {
    if (result.operation == last) continue;
    last = result.operation;
    table += fmt::format("  {:<16}{}\n", result.operation, result.what);
  }
  return table;
}

nlohmann::json to_json(const std::vector<Result>& results) {
  nlohmann::json all = nlohmann::json::array();
  for (const Result& result : results) {
    nlohmann::json one{
        {"operation", result.operation},
        {"what", result.what},
        {"bytes", result.bytes},
        {"operations", result.samples.operations()},
        {"min_ns", result.nanoseconds(0)},
        {"p50_ns", result.nanoseconds(0.5)},
        {"p99_ns", result.nanoseconds(0.99)},
        {"p999_ns", result.nanoseconds(0.999)},
        {"max_ns", result.nanoseconds(1)},
        {"messages_per_second", result.per_second()},
        {"megabytes_per_second", result.per_second() * static_cast<double>(result.bytes) / 1e6}};
    if (result.keys > 0) {
      one["keys"] = result.keys;
      one["keys_per_second"] = result.per_second() * static_cast<double>(result.keys);
    }
    if (result.yardstick) {
      one["yardstick"] = {{"name", result.yardstick->name},
                          {"p50_ns", result.yardstick->nanoseconds},
                          {"ratio", *result.ratio()}};
      if (result.yardstick->budget) {
        one["yardstick"]["budget"] = *result.yardstick->budget;
        one["yardstick"]["kept"] = !result.misses_budget();
      }
    }
    all.push_back(std::move(one));
  }
  return {{"kind", "bench"}, {"schema", 1}, {"results", std::move(all)}};
}

}  // namespace verbena::apps::bench
