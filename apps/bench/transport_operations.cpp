#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "apps/bench/operations.hpp"
#include "apps/bench/perftest.hpp"
#include "apps/bench/socket_yardsticks.hpp"
#include "apps/bench/yardsticks.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::bench {

namespace {

using transport::Opcode;

constexpr std::size_t kReadRowBytes = 400;  // a row as in the design: 100 floats
constexpr std::uint64_t kReadRows = 1 << 16;
constexpr std::size_t kBandwidthBytes = 65536;  // from here on the design has a budget for the bandwidth
constexpr std::optional<double> kSocketLatencyBudget = 1.3;
constexpr std::optional<double> kSocketBandwidthBudget = 0.5;
constexpr std::size_t kFewIterations = 25;  // for a median
constexpr std::size_t kManyIterations = 100'000;

/// One operation of a size: how it is timed, and perftest's tools for the same operation.
struct Case {
  std::string_view name;
  std::string_view what;
  Opcode opcode;
  Echo echo;
  double reported_share;  ///< 0.5 if the other side answers: half a round trip
  std::string_view latency_tool;
  std::optional<double> latency_budget;
  std::string_view bandwidth_tool;
  std::optional<double> bandwidth_budget;    ///< from kBandwidthBytes on
  std::string_view other_latency_tool = "";  ///< without a budget
};

constexpr std::array kCases{
    Case{"read", "one-sided read of the peer's memory, posted until completed", Opcode::kRead, Echo::kNone, 1,
         "ib_read_lat", 1.1, "ib_read_bw", 0.95},
    Case{"write",
         "one-sided write until the peer's processor sees its last 8 bytes: half a round trip of such writes",
         Opcode::kWrite, Echo::kMemory, 0.5, "ib_write_lat", std::nullopt, "ib_write_bw", 0.95},
    Case{"write-complete", "one-sided write, posted until completed here", Opcode::kWrite, Echo::kNone, 1, "",
         std::nullopt, "", std::nullopt},
    Case{"write-notify",
         "write with notification until the peer has polled it: half a round trip of such writes",
         Opcode::kWriteNotify, Echo::kNotification, 0.5, "ib_write_lat", 1.2, "ib_send_bw", std::nullopt,
         "ib_send_lat"}};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

class CaseMeasurement {
 public:
  CaseMeasurement(const BenchOptions& options, const Backend& backend, Client& client, Report& report)
      : options_(options), backend_(backend), client_(client), report_(report) {}

  absl::Status run(const Case& each, std::size_t bytes) {
    Result result{
        .operation = std::string(each.name), .what = std::string(each.what), .bytes = bytes, .samples = {}};
    Rounds latency{.tool = each.latency_tool};
    Rounds other_latency{.tool = each.other_latency_tool};
    Rounds bandwidth{.tool = each.bandwidth_tool};
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      options_.progress(fmt::format("{} of {}", each.name, size_text(bytes)));
      RETURN_IF_ERROR(time_latency(each, bytes, result, latency));
      run_tool(latency, bytes, 1e9 / latency.ours.back());
      run_tool(other_latency, bytes, 1e9 / latency.ours.back());
      if (each.name == "write-complete") continue;  // a stream of these is the same as a stream of writes
      RETURN_IF_ERROR(time_stream(each, bytes, result, bandwidth));
      run_tool(bandwidth, bytes, bandwidth.ours.back() / static_cast<double>(bytes));
    }
    if (result.stream) {
      result.stream->operations_per_second = median(bandwidth.ours) / static_cast<double>(bytes);
    }
    if (backend_.on_one_host && each.echo != Echo::kNone) {
      result.yardsticks.push_back({.name = "half a core round trip", .value = core_hop_ns()});
    } else if (backend_.on_one_host) {
      result.yardsticks.push_back(
          {.name = "memcpy", .value = time_memcpy(options_.timing, bytes).percentile(0.5)});
    }
    if (backend_.over_sockets) RETURN_IF_ERROR(add_sockets(each, bytes, latency, bandwidth, result));
    other_latency.ours = latency.ours;
    add(latency, Yardstick::Figure::kMedian, each.latency_budget, result);
    add(other_latency, Yardstick::Figure::kMedian, std::nullopt, result);
    add(bandwidth, Yardstick::Figure::kBandwidth,
        bytes >= kBandwidthBytes ? each.bandwidth_budget : std::nullopt, result);
    report_.results.push_back(std::move(result));
    return absl::OkStatus();
  }

 private:
  /// One of our figures and the figure of perftest's tool for the same operation, measured in turns.
  struct Rounds {
    std::string_view tool;  ///< empty: there is no tool
    std::vector<double> ours = {};
    std::vector<double> theirs = {};
    absl::Status failure = {};
    std::size_t retries = 0;
  };

  absl::Status time_latency(const Case& each, std::size_t bytes, Result& result, Rounds& rounds) {
    RETURN_IF_ERROR(client_.set_echo(each.echo, bytes));
    TimingOptions timing = options_.timing;
    timing.reported_share = each.reported_share;
    if (each.echo != Echo::kNone) timing.batch_nanoseconds = 0;  // each operation is timed by itself
    Samples samples;
    absl::Status status = time_operation(
        timing,
        [&] {
          if (each.echo == Echo::kNotification) return client_.notify_and_back(bytes);
          if (each.echo == Echo::kMemory) return client_.write_and_back(bytes);
          return client_.complete(each.opcode, bytes);
        },
        samples);
    if (!status.ok()) return status;
    rounds.ours.push_back(samples.percentile(0.5));
    result.samples.merge(samples);
    return client_.set_echo(Echo::kNone, 0);
  }

  absl::Status time_stream(const Case& each, std::size_t bytes, Result& result, Rounds& rounds) {
    const Echo echo = each.opcode == Opcode::kWriteNotify ? Echo::kTake : Echo::kNone;
    RETURN_IF_ERROR(client_.set_echo(echo, 0));
    auto stream = client_.stream(each.opcode, bytes, options_.depth, options_.batch, options_.timing.seconds);
    if (!stream.ok()) return stream.status();
    result.stream = *stream;
    rounds.ours.push_back(stream->operations_per_second * static_cast<double>(bytes));
    return client_.set_echo(Echo::kNone, 0);
  }

  void run_tool(Rounds& rounds, std::size_t bytes, double expected_per_second) {
    if (!options_.perftest || rounds.tool.empty()) return;
    options_.progress(fmt::format("{} of {}", rounds.tool, size_text(bytes)));
    const bool latency = rounds.tool.ends_with("_lat");
    const std::size_t least = latency ? kFewIterations : 2 * options_.depth;
    const auto wanted = static_cast<std::size_t>(options_.timing.seconds * expected_per_second);
    const PerftestRun run{.tool = std::string(rounds.tool),
                          .bytes = bytes,
                          .iterations = std::clamp(wanted, least, std::max(least, kManyIterations)),
                          .depth = latency ? 0 : options_.depth,
                          .connections = latency ? 1 : options_.connections};
    const absl::StatusOr<double> figure = run_perftest(client_, backend_.device, run, rounds.retries);
    if (figure.ok()) {
      rounds.theirs.push_back(*figure);
    } else {
      rounds.failure = figure.status();
    }
  }

  void add(const Rounds& rounds, Yardstick::Figure figure, std::optional<double> budget, Result& result) {
    const std::string tool(rounds.tool);
    if (rounds.retries > 0) {
      report_.notes.push_back(fmt::format(
          "{} of {} for {}: {} more tries; the last trouble: {}", tool, size_text(result.bytes),
          result.operation, rounds.retries,
          rounds.failure.ok() ? "no figure in its output" : std::string(rounds.failure.message())));
    } else if (!rounds.failure.ok()) {
      report_.notes.push_back(fmt::format("{} of {} for {}: {}", tool, size_text(result.bytes),
                                          result.operation, std::string(rounds.failure.message())));
    }
    if (rounds.theirs.empty()) return;
    result.yardsticks.push_back({.name = tool,
                                 .figure = figure,
                                 .value = median(rounds.theirs),
                                 .budget = budget,
                                 .ours = median(rounds.ours)});
  }

  /// Plain sockets, for the operations that they have something like.
  absl::Status add_sockets(const Case& each, std::size_t bytes, const Rounds& latency,
                           const Rounds& bandwidth, Result& result) {
    if (each.opcode == Opcode::kRead) {
      const absl::StatusOr<Samples> round_trip = time_socket_round_trip(options_.timing, bytes);
      if (!round_trip.ok()) return round_trip.status();
      result.yardsticks.push_back({.name = "plain TCP question and answer",
                                   .value = round_trip->percentile(0.5),
                                   .budget = bytes < kBandwidthBytes ? kSocketLatencyBudget : std::nullopt,
                                   .ours = median(latency.ours)});
    } else if (!bandwidth.ours.empty()) {
      const absl::StatusOr<double> stream = time_socket_stream(options_.timing, bytes);
      if (!stream.ok()) return stream.status();
      result.yardsticks.push_back({.name = "plain TCP stream",
                                   .figure = Yardstick::Figure::kBandwidth,
                                   .value = *stream,
                                   .budget = bytes >= kBandwidthBytes ? kSocketBandwidthBudget : std::nullopt,
                                   .ours = median(bandwidth.ours)});
    }
    return absl::OkStatus();
  }

  double core_hop_ns() {
    if (!core_hop_ns_) core_hop_ns_ = time_core_round_trip(options_.timing).percentile(0.5) / 2;
    return *core_hop_ns_;
  }

  const BenchOptions& options_;
  const Backend& backend_;
  Client& client_;
  Report& report_;
  std::optional<double> core_hop_ns_;
};

absl::Status measure_read_batch(const BenchOptions& options, const Backend& backend, Client& client,
                                Report& report) {
  options.progress("read-batch");
  std::vector<std::uint64_t> keys(kReadRows);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  std::shuffle(keys.begin(), keys.end(), std::mt19937_64(1));
  const std::size_t batch = options.batch;
  Result result{
      .operation = "read-batch",
      .what = fmt::format("{} one-sided reads of rows of 400 bytes all over 26 MB, posted together until "
                          "all completed",
                          batch),
      .bytes = batch * kReadRowBytes,
      .keys = batch,
      .samples = {}};
  std::size_t next = 0;
  absl::Status status = time_operation(
      options.timing,
      [&] {
        absl::Status read = client.read_rows(std::span(keys).subspan(next, batch), kReadRowBytes);
        next += batch;
        if (next + batch > keys.size()) next = 0;
        return read;
      },
      result.samples);
  if (!status.ok()) return status;
  if (backend.on_one_host) {
    result.yardsticks.push_back(
        {.name = "memcpy of the same rows",
         .value = time_row_copies(options.timing, keys, batch, kReadRowBytes).percentile(0.5),
         .budget = 2});
  }
  report.results.push_back(std::move(result));
  return absl::OkStatus();
}

absl::Status measure_read_busy(const BenchOptions& options, Client& client, Report& report) {
  options.progress("read-busy");
  constexpr double kLimitNs = 1e6;
  constexpr double kWarmUp = 0.1;  // of the measurement's time, as time_operation() has it
  constexpr double kMargin = 0.05;
  Result result{.operation = "read-busy",
                .what =
                    "one-sided read of a row of 400 bytes, posted until completed, while the thread that "
                    "owns the row computes and looks at no event",
                .bytes = kReadRowBytes,
                .samples = {}};
  const std::chrono::duration<double> time((1 + kWarmUp) * options.timing.seconds + kMargin);
  RETURN_IF_ERROR(client.let_compute(std::chrono::duration_cast<std::chrono::milliseconds>(time)));
  TimingOptions timing = options.timing;
  timing.batch_nanoseconds = 0;  // the slowest ones count, so that each is timed by itself
  RETURN_IF_ERROR(time_operation(
      timing, [&] { return client.complete(Opcode::kRead, kReadRowBytes); }, result.samples));
  result.yardsticks.push_back(
      {.name = "a millisecond", .figure = Yardstick::Figure::kP99, .value = kLimitNs, .budget = 1});
  report.results.push_back(std::move(result));
  return absl::OkStatus();
}

}  // namespace

std::size_t memory_bytes(const BenchOptions& options) {
  const std::size_t largest = *std::max_element(options.sizes_bytes.begin(), options.sizes_bytes.end());
  // At least a row, because some operations of tables are compared with reading one.
  return std::max(largest, options.wants("read-batch") ? kReadRows * kReadRowBytes : kReadRowBytes);
}

absl::Status measure_transport(const BenchOptions& options, const Backend& backend, Client& client,
                               Report& report) {
  CaseMeasurement measurement(options, backend, client, report);
  for (const Case& each : kCases) {
    if (!options.wants(each.name)) continue;
    for (const std::size_t bytes : options.sizes_bytes) {
      RETURN_IF_ERROR(measurement.run(each, bytes));
    }
  }
  if (options.wants("read-batch")) RETURN_IF_ERROR(measure_read_batch(options, backend, client, report));
  return options.wants("read-busy") ? measure_read_busy(options, client, report) : absl::OkStatus();
}

}  // namespace verbena::apps::bench
