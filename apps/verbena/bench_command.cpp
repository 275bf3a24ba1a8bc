#include "apps/verbena/bench_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

#include "absl/strings/str_join.h"
#include "apps/bench/operations.hpp"
#include "apps/data/output_file.hpp"
#include "apps/verbena/exit_status.hpp"
#include "apps/verbena/job_options.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::apps {
namespace {

constexpr std::int64_t kLargestBytes = 1 << 26;

struct CommandOptions {
  bench::BenchOptions bench;
  std::string transport = "shm";
  std::string json;
};

CLI::Validator one_of(const std::vector<std::string>& choices) {
  return CLI::Validator(
      [choices](const std::string& text) {
        const bool known = std::find(choices.begin(), choices.end(), text) != choices.end();
        return known ? std::string()
                     : fmt::format("one of {} is expected, not \"{}\"", absl::StrJoin(choices, ", "), text);
      },
      "");
}

CLI::Validator transfer_size() {
  return CLI::Validator(
      [](const std::string& text) {
        std::int64_t bytes = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
        const bool good = error == std::errc() && stop == text.data() + text.size() && bytes >= 8 &&
                          bytes <= kLargestBytes && bytes % 8 == 0;
        return good
                   ? std::string()
                   : fmt::format("a multiple of 8 from 8 to {} is expected, not \"{}\"", kLargestBytes, text);
      },
      "");
}

CLI::Validator seconds() {
  return CLI::Validator(
      [](const std::string& text) {
        double value = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good =
            error == std::errc() && stop == text.data() + text.size() && value >= 0.01 && value <= 60;
        return good ? std::string() : fmt::format("seconds from 0.01 to 60 are expected, not \"{}\"", text);
      },
      "");
}

absl::Status write_json(const std::string& path, const nlohmann::json& json) {
  if (path == "-") {
    fmt::print("{}\n", json.dump(2));
    return absl::OkStatus();
  }
  auto file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  file->write(json.dump(2) + "\n");
  return file->commit();
}

int run_bench(CommandOptions& options) {
  if (!options.json.empty() && options.json != "-") {
    if (absl::Status status = OutputFile::check(options.json); !status.ok()) return report_error(status);
  }
  options.bench.make_transport = [] { return transport::make_shm_transport(); };
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (terminal) {
    options.bench.progress = [](std::string_view what) {
      fmt::print(stderr, "\r\033[Kmeasuring {} …", what);
    };
  }
  std::vector<bench::Result> results;
  absl::Status status = bench::measure_transport(options.bench, results);
  if (status.ok()) status = bench::measure_tables(options.bench, results);
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!status.ok()) return report_error(status);
  if (options.json != "-") fmt::print("{}", bench::to_table(results));
  if (options.json.empty()) return kExitOk;
  status = write_json(options.json, bench::to_json(results));
  if (status.ok()) return kExitOk;
  // All was measured: an output that cannot be written is no wrong use any more.
  report_error(status);
  return kExitFailed;
}

void add_options(CLI::App& command, CommandOptions& options) {
  command.add_option("--transport", options.transport, "shm: shared memory of this host.")
      ->type_name("TRANSPORT")
      ->check(one_of({"shm"}))
      ->group("Measurements")
      ->capture_default_str();
  command
      .add_option("--operations", options.bench.operations,
                  fmt::format("Measure these only: {}.", absl::StrJoin(bench::operation_names(), ", ")))
      ->type_name("NAMES")
      ->delimiter(',')
      ->check(one_of(bench::operation_names()))
      ->group("Measurements");
  command
      .add_option("--sizes", options.bench.sizes_bytes,
                  "Bytes of a transfer, for read, write and write-notify; multiples of 8.")
      ->type_name("SIZES")
      ->delimiter(',')
      ->check(transfer_size())
      ->group("Measurements")
      ->default_str(absl::StrJoin(options.bench.sizes_bytes, ","));
  command
      .add_option("--seconds", options.bench.timing.seconds,
                  "Length of each measurement; a tenth more to warm up.")
      ->type_name("SECONDS")
      ->check(seconds())
      ->group("Measurements")
      ->capture_default_str();
  command.add_option("--json", options.json, "Write the results as JSON; - writes it instead of the table.")
      ->type_name("FILE")
      ->group("Output");
}

}  // namespace

void add_bench_command(CLI::App& program, Run* run) {
  auto options = std::make_shared<CommandOptions>();
  CLI::App* command = program.add_subcommand(
      "bench",
      "measure the latency and throughput of the transport and of tables\n\nEach line stands beside its "
      "yardstick, measured in the same run: memcpy of the same bytes, or a cache line handed to another core "
      "and back. Times are those of perftest: write-notify is half a round trip, a read a whole one.");
  add_options(*command, *options);
  command->footer(examples({"verbena bench", "verbena bench --operations read,write-notify --sizes 8,65536",
                            "verbena bench --seconds 1 --json bench.json"}));
  command->callback([options, run] { *run = [options] { return run_bench(*options); }; });
}

}  // namespace verbena::apps
