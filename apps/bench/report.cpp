#include "apps/bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace verbena::apps::bench {

namespace {

constexpr std::array<std::pair<const char*, double>, 5> kPercentiles{
    {{"min", 0}, {"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}}};

bool is_time(const Yardstick& yardstick) {
  return yardstick.figure != Yardstick::Figure::kBandwidth;
}

std::string figure_name(const Yardstick& yardstick) {
  switch (yardstick.figure) {
    case Yardstick::Figure::kMedian:
      return "p50";
    case Yardstick::Figure::kP99:
      return "p99";
    case Yardstick::Figure::kBandwidth:
      return "bandwidth";
  }
  return "";
}

/// Of the column with the operations: room for the longest name, and for a gap. `other`: one more name.
std::size_t name_width(const std::vector<Result>& results, std::string_view other = "") {
  constexpr std::size_t kGap = 2;
  std::size_t width = std::max<std::size_t>(14, other.size());
  for (const Result& result : results) width = std::max(width, result.operation.size());
  return width + kGap;
}

std::string figures_table(const std::vector<Result>& results) {
  const std::size_t names = name_width(results);
  std::string table = fmt::format("{:<{}}{:>8}", "operation", names, "size");
  for (const auto& [name, fraction] : kPercentiles) table += fmt::format("{:>11}", name);
  table += fmt::format("{:>10}{:>10}\n", "M msg/s", "MB/s");
  for (const Result& result : results) {
    table += fmt::format("{:<{}}{:>8}", result.operation, names, size_text(result.bytes));
    for (const auto& [name, fraction] : kPercentiles) {
      table += fmt::format("{:>11}", time_text(result.samples.percentile(fraction)));
    }
    table += fmt::format("{:>10.4g}{:>10.4g}\n", result.per_second() / 1e6, result.bytes_per_second() / 1e6);
  }
  return table;
}

std::string yardsticks_table(const Circumstances& circumstances, const std::vector<Result>& results) {
  const std::size_t names = name_width(results);
  std::string table = fmt::format("{:<{}}{:>8} {:<10}{:>14}{:>14}{:>9}  {:<15} {}\n", "operation", names,
                                  "size", "figure", "ours", "yardstick", "ratio", "budget", "the yardstick");
  for (const Result& result : results) {
    for (const Yardstick& yardstick : result.yardsticks) {
      // The sign in a budget has three bytes but takes one column: fmt counts columns.
      table += fmt::format("{:<{}}{:>8} {:<10}{:>14}{:>14}{:>9.3g}  {:<15} {}\n", result.operation, names,
                           size_text(result.bytes), figure_name(yardstick),
                           figure_text(yardstick, result.figure(yardstick)),
                           figure_text(yardstick, yardstick.value), result.ratio(yardstick),
                           budget_text(circumstances, result, yardstick), yardstick.name);
    }
  }
  return table;
}

std::string posted_table(const std::vector<Result>& results) {
  const std::size_t names = name_width(results);
  std::string table = fmt::format("{:<{}}{:>8}{:>7}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "operation", names,
                                  "size", "rows", "requests", "bytes", "doorbells", "bytes/row", "bells/row");
  for (const Result& result : results) {
    if (!result.posted) continue;
    const Posted& posted = *result.posted;
    table +=
        fmt::format("{:<{}}{:>8}{:>7}{:>12.3g}{:>12.5g}{:>12.3g}", result.operation, names,
                    size_text(result.bytes), result.keys, posted.requests, posted.bytes, posted.doorbells);
    const auto rows = static_cast<double>(result.keys);
    table += result.keys > 0
                 ? fmt::format("{:>12.4g}{:>12.3g}\n", posted.bytes / rows, posted.doorbells / rows)
                 : "\n";
  }
  return table;
}

/// How much of the time of reading gathering took, by the number of keys.
std::string crossovers_table(const std::vector<GatherCrossover>& crossovers) {
  std::string table;
  for (const GatherCrossover& crossover : crossovers) {
    if (table.empty()) {
      table = fmt::format("{:<12}{:>11}  |", "row", "from keys");
      for (const GatherCrossover::Pull& pull : crossover.pulls) table += fmt::format("{:>10}", pull.keys);
      table += "\n";
    }
    table += fmt::format("{:<12}{:>11}  |", crossover.row_text(), crossover.from_keys_text());
    for (const GatherCrossover::Pull& pull : crossover.pulls)
      table += fmt::format("{:>10.3g}", pull.gathered_ns / pull.read_ns);
    table += "\n";
  }
  return table;
}

nlohmann::json crossover_json(const GatherCrossover& crossover) {
  nlohmann::json json{
      {"row_floats", crossover.row_floats}, {"from_keys", nullptr}, {"pulls", nlohmann::json::array()}};
  if (const auto keys = crossover.from_keys()) json["from_keys"] = *keys;
  for (const GatherCrossover::Pull& pull : crossover.pulls) {
    json["pulls"].push_back(
        {{"keys", pull.keys}, {"read_p50_ns", pull.read_ns}, {"gathered_p50_ns", pull.gathered_ns}});
  }
  return json;
}

nlohmann::json histogram_json(const Samples& samples) {
  nlohmann::json buckets = nlohmann::json::array();
  for (const Samples::Bucket& bucket : samples.histogram()) {
    buckets.push_back({bucket.low_ns, bucket.high_ns, bucket.samples});
  }
  return buckets;
}

nlohmann::json yardstick_json(const Circumstances& circumstances, const Result& result,
                              const Yardstick& yardstick) {
  const bool time = is_time(yardstick);
  nlohmann::json json{{"name", yardstick.name},
                      {"figure", time ? figure_name(yardstick) + "_ns" : "megabytes_per_second"},
                      {"value", time ? yardstick.value : yardstick.value / 1e6},
                      {"ours", time ? result.figure(yardstick) : result.figure(yardstick) / 1e6},
                      {"ratio", result.ratio(yardstick)}};
  if (yardstick.budget) {
    json["budget"] = *yardstick.budget;
    const bool judged = circumstances.shared_cores.empty();
    json["kept"] = judged ? nlohmann::json(result.keeps(yardstick)) : nlohmann::json();
  }
  return json;
}

nlohmann::json result_json(const Circumstances& circumstances, const Result& result) {
  const Samples& samples = result.samples;
  nlohmann::json json{{"operation", result.operation},
                      {"what", result.what},
                      {"bytes", result.bytes},
                      {"operations", samples.operations()},
                      {"min_ns", samples.percentile(0)},
                      {"p50_ns", samples.percentile(0.5)},
                      {"p99_ns", samples.percentile(0.99)},
                      {"p999_ns", samples.percentile(0.999)},
                      {"max_ns", samples.percentile(1)},
                      {"histogram", histogram_json(samples)},
                      {"messages_per_second", result.per_second()},
                      {"megabytes_per_second", result.bytes_per_second() / 1e6}};
  if (result.stream) {
    json["stream"] = {{"connections", result.stream->connections},
                      {"depth", result.stream->depth},
                      {"batch", result.stream->batch}};
  }
  if (result.keys > 0) {
    json["keys"] = result.keys;
    json["keys_per_second"] = result.per_second() * static_cast<double>(result.keys);
  }
  if (result.posted) {
    json["posted"] = {{"requests", result.posted->requests},
                      {"bytes", result.posted->bytes},
                      {"doorbells", result.posted->doorbells}};
  }
  json["yardsticks"] = nlohmann::json::array();
  for (const Yardstick& yardstick : result.yardsticks) {
    json["yardsticks"].push_back(yardstick_json(circumstances, result, yardstick));
  }
  return json;
}

}  // namespace

std::string place_text(const Circumstances& circumstances) {
  const std::string device =
      circumstances.device.empty()
          ? std::string()
          : fmt::format(", {}, path MTU {}", circumstances.device, circumstances.mtu_bytes);
  return fmt::format("{}{}{}; the other side: {}", circumstances.transport, device,
                     circumstances.encrypted ? ", encrypted" : "", circumstances.other_side);
}

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

std::string figure_text(const Yardstick& yardstick, double value) {
  return is_time(yardstick) ? time_text(value) : fmt::format("{:.4g} MB/s", value / 1e6);
}

std::string budget_text(const Circumstances& circumstances, const Result& result,
                        const Yardstick& yardstick) {
  if (!yardstick.budget) return "";
  const char* const verdict = !circumstances.shared_cores.empty() ? "not judged"
                              : result.keeps(yardstick)           ? "kept"
                                                                  : "MISSED";
  return fmt::format("{} {:.4g}: {}", is_time(yardstick) ? "≤" : "≥", *yardstick.budget, verdict);
}

std::vector<std::string> all_notes(const Circumstances& circumstances) {
  std::vector<std::string> notes = circumstances.notes;
  if (!circumstances.shared_cores.empty()) {
    notes.push_back(fmt::format("cores are shared: {}; times are the scheduler's, and no budget is judged",
                                circumstances.shared_cores));
  }
  return notes;
}

std::optional<std::size_t> GatherCrossover::from_keys() const {
  std::optional<std::size_t> least;
  for (const Pull& pull : pulls) {
    if (pull.gathered_ns >= pull.read_ns) {
      least.reset();
    } else if (!least) {
      least = pull.keys;
    }
  }
  return least;
}

std::string GatherCrossover::from_keys_text() const {
  const std::optional<std::size_t> keys = from_keys();
  if (!keys) return "never";
  return *keys == pulls.front().keys ? "always" : std::to_string(*keys);
}

std::string GatherCrossover::row_text() const {
  return fmt::format("{} float{}", row_floats, row_floats == 1 ? "" : "s");
}

double Result::per_second() const {
  return stream ? stream->operations_per_second : samples.operations_per_second();
}

double Result::figure(const Yardstick& yardstick) const {
  if (yardstick.ours) return *yardstick.ours;
  switch (yardstick.figure) {
    case Yardstick::Figure::kMedian:
      return samples.percentile(0.5);
    case Yardstick::Figure::kP99:
      return samples.percentile(0.99);
    case Yardstick::Figure::kBandwidth:
      return bytes_per_second();
  }
  return 0;
}

double Result::ratio(const Yardstick& yardstick) const {
  return yardstick.value > 0 ? figure(yardstick) / yardstick.value : 0;
}

bool Result::keeps(const Yardstick& yardstick) const {
  return is_time(yardstick) ? ratio(yardstick) <= *yardstick.budget : ratio(yardstick) >= *yardstick.budget;
}

std::string to_table(const Circumstances& circumstances, const std::vector<Result>& results,
                     const std::vector<GatherCrossover>& crossovers) {
  std::string text = place_text(circumstances) + "\n";
  if (!results.empty()) text += "\n" + figures_table(results);
  const bool compared = std::any_of(results.begin(), results.end(),
                                    [](const Result& result) { return !result.yardsticks.empty(); });
  if (compared)
    text += fmt::format("\nBeside what was measured in the same run\n{}",
                        yardsticks_table(circumstances, results));
  const bool counted = std::any_of(results.begin(), results.end(),
                                   [](const Result& result) { return result.posted.has_value(); });
  if (counted)
    text += fmt::format("\nWhat an operation asks of this side's transport\n{}", posted_table(results));
  if (!crossovers.empty()) {
    text +=
        "\nFrom how many keys of a pull on gathering takes less time than one-sided reads, and its share of "
        "their time by the number of keys\n" +
        crossovers_table(crossovers);
  }
  text += "\nWhat is timed\n";
  std::set<std::string> said;
  const std::size_t names = name_width(results, crossovers.empty() ? "" : kGatherCrossover);
  for (const Result& result : results) {
    if (said.insert(result.operation).second)
      text += fmt::format("  {:<{}}{}\n", result.operation, names, result.what);
  }
  if (!crossovers.empty()) text += fmt::format("  {:<{}}{}\n", kGatherCrossover, names, kGatherCrossoverWhat);
  for (const std::string& note : all_notes(circumstances)) text += fmt::format("\nNote: {}\n", note);
  return text;
}

nlohmann::json to_json(const Circumstances& circumstances, const std::vector<Result>& results,
                       const std::vector<GatherCrossover>& crossovers) {
  nlohmann::json json{{"kind", "bench"},
                      {"schema", 2},
                      {"transport", circumstances.transport},
                      {"encrypted", circumstances.encrypted},
                      {"other_side", circumstances.other_side},
                      {"notes", all_notes(circumstances)},
                      {"cores_shared", !circumstances.shared_cores.empty()},
                      {"results", nlohmann::json::array()}};
  if (!circumstances.device.empty()) {
    json["device"] = circumstances.device;
    json["mtu_bytes"] = circumstances.mtu_bytes;
  }
  for (const Result& result : results) json["results"].push_back(result_json(circumstances, result));
  for (const GatherCrossover& crossover : crossovers)
    json["gather_crossover"].push_back(crossover_json(crossover));
  return json;
}

}  // namespace verbena::apps::bench
