#include "apps/bench/bench_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "apps/bench/operations.hpp"
#include "apps/data/output_file.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::apps {

namespace bench {

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> kNames{"read",          "write",      "write-notify", "pull",
                                               "pull-in-place", "pull-batch", "push-batch",   "push-visible",
                                               "clock",         "idle-server"};
  return kNames;
}

bool BenchOptions::wants(std::string_view operation) const {
  return operations.empty() || std::find(operations.begin(), operations.end(), operation) != operations.end();
}

}  // namespace bench

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

struct CommandOptions {
  bench::BenchOptions bench;
  std::string transport = "shm";
  std::string json;
};

int complain(const absl::Status& status, int exit_status) {
  fmt::print(stderr, "verbena: error: {}\n", std::string(status.message()));
  return exit_status;
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
    if (absl::Status status = OutputFile::check(options.json); !status.ok())
      return complain(status, kWrongUse);
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
  if (!status.ok()) return complain(status, kFailed);
  if (options.json != "-") fmt::print("{}", bench::to_table(results));
  if (!options.json.empty()) {
    if (status = write_json(options.json, bench::to_json(results)); !status.ok())
      return complain(status, kFailed);
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& program, std::function<int()>* run) {
  auto options = std::make_shared<CommandOptions>();
  CLI::App* command = program.add_subcommand(
      "bench", "measure latency and throughput of the transport and of tables on this machine");
  command->add_option("--transport", options->transport, "shm: shared memory on this host")
      ->check(CLI::IsMember({"shm"}))
      ->capture_default_str();
  command
      ->add_option("--sizes", options->bench.sizes_bytes,
                   "bytes of a transfer, for read, write and write-notify; multiples of 8")
      ->delimiter(',')
      ->check(CLI::Range(8, 1 << 26))
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.empty() || text.back() < '0' || text.back() > '9' || std::stoull(text) % 8 == 0
                       ? std::string()
                       : text + " is not a multiple of 8";
          },
          ""))
      ->capture_default_str();
  command->add_option("--operations", options->bench.operations, "measure only these")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::operation_names()));
  command->add_option("--seconds", options->bench.timing.seconds, "length of each measurement")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  command->add_option("--json", options->json, "write the results as JSON to this file; - for the screen");
  command->footer(
      "Each line stands beside its yardstick, measured in the same run: memcpy of the same bytes, or a cache "
      "line\n"
      "handed to another core and back. Times are those of perftest: write-notify is half a round trip, a "
      "read a\n"
      "whole one. Exit status: 0 measured, 1 failed, 2 wrong use.");
  command->callback([options, run] { *run = [options] { return run_bench(*options); }; });
}

}  // namespace verbena::apps
