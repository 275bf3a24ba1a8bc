// Results of a benchmark as a table for people and as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/samples.hpp"

namespace verbena::apps::bench {

/// What an operation is compared with, measured in the same run, and how near to it the design wants the
/// operation to be.
struct Yardstick {
  enum class Figure : std::uint8_t { kMedian, kP99, kBandwidth };

  std::string name;
  Figure figure = Figure::kMedian;
  double value = 0;  ///< median or 99th percentile in nanoseconds, or bytes a second; for the same bytes
  /// The upper limit of operation ÷ yardstick; for a bandwidth, the lower limit.
  std::optional<double> budget = {};
  /// The operation's own figure, if the two were measured in turns: the median of the rounds, like `value`.
  /// Without it, the figure of the whole result counts.
  std::optional<double> ours = {};
};

/// Many operations under way at a time.
struct Stream {
  double operations_per_second = 0;
  std::size_t connections = 1;
  std::size_t depth = 1;  ///< requests under way on each connection
  std::size_t batch = 1;  ///< requests posted together
};

/// What an operation asks of the transport, on the measuring side; means.
struct Posted {
  double requests = 0;
  double bytes = 0;
  double doorbells = 0;
};

struct Result {
  std::string operation;
  std::string what;       ///< exactly what is timed
  std::size_t bytes = 0;  ///< payload of one operation
  std::size_t keys = 0;   ///< rows of one operation; 0 where it has none
  Samples samples;        ///< one operation at a time
  std::optional<Stream> stream = {};
  std::optional<Posted> posted = {};
  std::vector<Yardstick> yardsticks = {};

  /// The rate of the stream if there is one, otherwise of one operation at a time.
  [[nodiscard]] double per_second() const;
  [[nodiscard]] double bytes_per_second() const { return per_second() * static_cast<double>(bytes); }
  /// The figure that is compared with the yardstick's, and its ratio to the yardstick's figure.
  [[nodiscard]] double figure(const Yardstick& yardstick) const;
  [[nodiscard]] double ratio(const Yardstick& yardstick) const;
  /// REQUIRES: the yardstick has a budget.
  [[nodiscard]] bool keeps(const Yardstick& yardstick) const;
};

inline constexpr const char* kGatherCrossover = "gather-crossover";
inline constexpr const char* kGatherCrossoverWhat =
    "pulls of 8 to 1024 rows of a sparse table of 262144, all of which have been read before: by one-sided "
    "reads, and gathered by the server in one message for each lane";

/// Pulls of rows of one width both ways: each row read by itself, and gathered by the server.
struct GatherCrossover {
  struct Pull {
    std::size_t keys = 0;
    double read_ns = 0;      ///< median
    double gathered_ns = 0;  ///< median
  };

  std::size_t row_floats = 0;
  std::vector<Pull> pulls;  ///< by the number of keys, the fewest first

  /// The least number of keys with which, and with all larger ones, gathering took less time; nullopt: none.
  [[nodiscard]] std::optional<std::size_t> from_keys() const;
  /// The same for people: "128", "never", or "always", with the fewest keys that were measured and all
  /// others.
  [[nodiscard]] std::string from_keys_text() const;
  /// "1 float"
  [[nodiscard]] std::string row_text() const;
};

/// Where and how the results were measured.
struct Circumstances {
  std::string transport;        ///< its scheme
  std::string device = {};      ///< device and port, such as "rxe0 port 1"; empty for shared memory
  std::uint32_t mtu_bytes = 0;  ///< MTU of the path; 0 if there is no device
  bool encrypted = false;       ///< what travels, by TLS
  std::string other_side = {};  ///< where the other side ran
  std::vector<std::string> notes = {};
  std::string shared_cores = {};  ///< why no budget is judged (cores.hpp); empty: budgets are judged
};

/// "tcp, encrypted; the other side: node2:7000"
[[nodiscard]] std::string place_text(const Circumstances& circumstances);
/// A time, a size and a rate in readable form.
[[nodiscard]] std::string time_text(double nanoseconds);
[[nodiscard]] std::string size_text(std::size_t bytes);
[[nodiscard]] std::string figure_text(const Yardstick& yardstick, double value);
/// "≤ 1.1: kept", "≤ 1.1: not judged"; empty where there is no budget.
[[nodiscard]] std::string budget_text(const Circumstances& circumstances, const Result& result,
                                      const Yardstick& yardstick);
/// What did not go as it should, and whether budgets are judged.
[[nodiscard]] std::vector<std::string> all_notes(const Circumstances& circumstances);

[[nodiscard]] std::string to_table(const Circumstances& circumstances, const std::vector<Result>& results,
                                   const std::vector<GatherCrossover>& crossovers = {});
/// {"kind": "bench", "schema": 2, …}: see docs/benchmarks.md.
[[nodiscard]] nlohmann::json to_json(const Circumstances& circumstances, const std::vector<Result>& results,
                                     const std::vector<GatherCrossover>& crossovers = {});

}  // namespace verbena::apps::bench
