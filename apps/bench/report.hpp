// Results of a benchmark as a table for people and as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/samples.hpp"

namespace verbena::apps::bench {

/// The physical bound that an operation stands beside, and how near the design wants it to be.
struct Yardstick {
  std::string name;
  double nanoseconds = 0;             ///< median, for the same bytes
  std::optional<double> budget = {};  ///< operation ÷ yardstick shall not be more
};

struct Result {
  std::string operation;
  std::string what;        ///< exactly what is timed
  std::size_t bytes = 0;   ///< payload of one operation
  std::size_t keys = 0;    ///< rows of one operation; 0 where it has none
  double timed_share = 1;  ///< of what is timed that is reported: 0.5 for half a round trip
  Samples samples;
  std::optional<Yardstick> yardstick = {};

  [[nodiscard]] double nanoseconds(double fraction) const {
    return samples.percentile(fraction) * timed_share;
  }
  [[nodiscard]] double per_second() const { return samples.operations_per_second() / timed_share; }
  /// Median ÷ the yardstick's.
  [[nodiscard]] std::optional<double> ratio() const;
  [[nodiscard]] bool misses_budget() const;
};

[[nodiscard]] std::string to_table(const std::vector<Result>& results);
/// {"kind": "bench", "schema": 1, "results": […]}: see docs/benchmarks.md.
[[nodiscard]] nlohmann::json to_json(const std::vector<Result>& results);

}  // namespace verbena::apps::bench
