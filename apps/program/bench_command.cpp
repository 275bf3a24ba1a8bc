#include "apps/program/bench_command.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "apps/bench/bench_report.hpp"
#include "apps/bench/cores.hpp"
#include "apps/bench/operations.hpp"
#include "apps/bench/perftest.hpp"
#include "apps/bench/responder.hpp"
#include "apps/data/distinct_files.hpp"
#include "apps/data/output_file.hpp"
#include "apps/launcher/child_process.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/launcher/process_jobs.hpp"
#include "apps/options/numbers.hpp"
#include "apps/options/transport_options.hpp"
#include "apps/options/validators.hpp"
#include "apps/peers/program.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/provenance.hpp"
#include "apps/report/terminal.hpp"
#include "base/decimal.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "job/child_message.hpp"
#include "job/launch_letter.hpp"
#include "job/peers.hpp"
#include "job/secret_handover.hpp"
#include "job/starters.hpp"
#include "transport/host_port.hpp"

namespace verbena::apps {
namespace {

constexpr std::size_t kLargestBytes = 1 << 26;
constexpr std::size_t kMostRequests = 16384;
constexpr const char* kDefaultName = "bench";
constexpr const char* kDefaultPort = ":7471";
constexpr auto kStartPatience = std::chrono::seconds(20);  // for a process that we start
constexpr std::size_t kRoundsWithPerftest = 5;
constexpr const char* kMeasurements = "Measurements";
constexpr const char* kSides = "The two sides";

struct BenchCommand {
  bench::BenchOptions bench;
  TransportOptions transport;
  bool listens = false;
  std::string listen;
  std::string connect;
  std::string json;
  std::string report;
};

CLI::Validator transfer_size() {
  return CLI::Validator(
      [](const std::string& text) {
        const std::optional<std::size_t> bytes = base::parse_decimal<std::size_t>(text);
        const bool good = bytes && *bytes >= 8 && *bytes <= kLargestBytes && *bytes % 8 == 0;
        return good
                   ? std::string()
                   : fmt::format("a multiple of 8 from 8 to {} is expected, not \"{}\"", kLargestBytes, text);
      },
      "");
}

// ---- the two sides

/// The transport's address for NAME or HOST:PORT.
absl::StatusOr<std::string> full_address(const transport::Backend& backend, const std::string& given,
                                         std::string_view option, bool needs_place) {
  if (backend.reach == transport::Reach::kHost) return backend.address(given.empty() ? kDefaultName : given);
  const std::string place = given.empty() ? kDefaultPort : given;
  const absl::StatusOr<transport::HostPort> parsed = transport::parse_host_port(place);
  if (!parsed.ok() || (needs_place && (parsed->host.empty() || parsed->port == 0))) {
    return absl::InvalidArgumentError(fmt::format("{}: HOST:PORT is expected, not \"{}\"", option, given));
  }
  return backend.address(place);
}

void tell(int pipe, std::string_view line) {
  const std::string text = fmt::format("{}\n", line);
  (void)!::write(pipe, text.data(), text.size());
}

/// Runs the other side of the measurements, until a signal, or until the process that started it is gone.
int respond(const job::LaunchLetter& letter, const bench::Backend& backend, const std::string& address) {
  const bool started_by_us = letter.launched();
  const auto failed = [&](const absl::Status& status) {
    if (!started_by_us) return report_error(at_chosen_place(status));
    tell(letter.report_to, fmt::format("error {}", std::string(status.message())));
    return exit_status(status);
  };
  StopSignals signals({SIGINT, SIGTERM, SIGHUP});
  auto responder = bench::Responder::create(backend, address);
  if (!responder.ok()) return failed(responder.status());
  if (started_by_us) {
    tell(letter.report_to, fmt::format("address {}", (*responder)->address()));
  } else {
    print_out("listening at {}; Ctrl-C ends it\n", (*responder)->address());
    flush(stdout);
  }
  std::atomic<bool> stop = false;
  const JobsResult ended = run_jobs({.jobs = {[&] { return (*responder)->run(stop); }},
                                     .wake = [&] { (*responder)->interrupt(); },
                                     .listener_descriptor = letter.report_to},
                                    signals, stop);
  if (ended.abandoned) ::_exit(kExitFailed);
  for (const absl::Status& status : ended.statuses) {
    if (!status.ok() && !absl::IsCancelled(status)) return failed(status);
  }
  return ended.signal == 0 ? kExitOk : kExitSignalBase + ended.signal;
}

/// A process on this host that runs the other side, until this object is destroyed.
class OtherSide {
 public:
  static absl::StatusOr<OtherSide> start(const BenchCommand& options, const std::string& listen) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return absl::ErrnoToStatus(errno, "no socket to the other side can be made");
    }
    const absl::Status told = job::hand_over(*options.transport.secret, ends[0]);
    auto process = ChildProcess::start("the other side", arguments(options, listen), {.rendezvous = ends[1]});
    for (const int end : ends) ::close(end);  // the other side can still read what was sent
    if (!told.ok()) return told;
    if (!process.ok()) return process.status();
    OtherSide side(std::move(*process));
    const auto end = std::chrono::steady_clock::now() + kStartPatience;
    while (side.address_.empty()) {
      pollfd file{.fd = side.process_.message_descriptor(), .events = POLLIN, .revents = 0};
      ::poll(&file, 1, 200);
      std::string error;
      side.process_.read_lines([&](std::string_view line) {
        constexpr std::string_view kAddress = "address ";
        constexpr std::string_view kError = "error ";
        if (line.starts_with(kAddress)) side.address_ = line.substr(kAddress.size());
        if (line.starts_with(kError)) error = line.substr(kError.size());
      });
      if (!error.empty()) return absl::UnavailableError(fmt::format("the other side: {}", error));
      if (side.address_.empty() && side.process_.message_descriptor() < 0) {
        return absl::UnavailableError(fmt::format("{} has ended at once", side.process_.name()));
      }
      if (std::chrono::steady_clock::now() >= end) {
        return absl::DeadlineExceededError(
            fmt::format("{} does not listen within {} s", side.process_.name(), kStartPatience.count()));
      }
    }
    return side;
  }

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  explicit OtherSide(ChildProcess process) : process_(std::move(process)) {}

  static std::vector<std::string> arguments(const BenchCommand& options, const std::string& listen) {
    std::vector<std::string> all{"bench", "--listen=" + listen, "--transport=" + options.transport.transport,
                                 fmt::format("--depth={}", options.bench.depth)};
    if (options.transport.tls) all.emplace_back("--tls");
    if (!options.transport.device.empty()) all.push_back("--device=" + options.transport.device);
    if (options.transport.device_port != 0) {
      all.push_back(fmt::format("--device-port={}", options.transport.device_port));
    }
    if (options.transport.streams != 0) all.push_back(fmt::format("--streams={}", options.transport.streams));
    return all;
  }

  ChildProcess process_;
  std::string address_;
};

// ---- measuring

absl::Status write_outputs(const BenchCommand& options, const bench::Circumstances& circumstances,
                           const Provenance& made, const bench::Report& report) {
  if (!options.report.empty()) {
    const absl::Status status =
        write_file(options.report, bench_report(circumstances, made, report.results, report.crossovers));
    if (!status.ok()) return status;
  }
  if (options.json.empty()) return absl::OkStatus();
  nlohmann::json numbers = bench::to_json(circumstances, report.results, report.crossovers);
  add_provenance(made, numbers);
  const std::string json = job::to_line(numbers, 2);
  if (options.json != "-") return write_file(options.json, json);
  put(stdout, json);
  return absl::OkStatus();
}

int measure(BenchCommand& options, const bench::Backend& backend) {
  std::string address;
  std::string other_side;
  std::optional<OtherSide> own;
  if (options.connect.empty()) {
    const std::string fresh = backend.fresh_address();
    auto started = OtherSide::start(options, std::string(transport::place_of(fresh)));
    if (!started.ok()) return report_error(started.status());
    own.emplace(std::move(*started));
    address = own->address();
    other_side = "another process of this host";
  } else {
    auto given = full_address(backend_of(options.transport), options.connect, "--connect", true);
    if (!given.ok()) return report_error(given.status());
    address = *given;
    other_side = options.connect;
  }
  StatusLine status_line(stderr);
  if (terminal_use(stderr).redraws) {
    options.bench.progress = [&](std::string_view what) {
      status_line.show(fmt::format("measuring {} …", what));
    };
  }
  const Provenance made = provenance();
  const bench::CoreWatch cores(own ? 2 : 1);
  auto report = bench::measure(options.bench, backend, address);
  status_line.erase();
  if (!report.ok()) {
    report_error(report.status());
    return kExitFailed;  // whatever it was: the options were possible
  }
  const bench::Circumstances circumstances{
      .transport = backend.name,
      .device = backend.device_text,
      .mtu_bytes = backend.device.mtu_bytes,
      .encrypted = options.transport.tls && backend_of(options.transport).can_encrypt,
      .other_side = other_side,
      .notes = report->notes,
      .shared_cores = bench::shared_cores(cores.so_far())};
  if (options.json != "-") {
    put(stdout, base::printable_lines(bench::to_table(circumstances, report->results, report->crossovers)));
  }
  const absl::Status status = write_outputs(options, circumstances, made, *report);
  if (status.ok()) return kExitOk;
  // The measurement has succeeded: an output that cannot be written is not a usage error at this point.
  report_error(status);
  return kExitFailed;
}

absl::Status check(BenchCommand& options) {
  if (options.listens && !options.connect.empty()) {
    return absl::InvalidArgumentError("--listen and --connect are for different processes");
  }
  if (!options.listens) {
    RETURN_IF_ERROR(job::check_started_once());
  }
  const bool between_hosts = options.listens || !options.connect.empty();
  RETURN_IF_ERROR(job::take_tls_variable(job::own_environment, options.transport.tls));
  options.transport =
      decided(options.transport, between_hosts ? transport::Reach::kHosts : transport::Reach::kHost);
  RETURN_IF_ERROR(check(options.transport));
  Files files;
  files.reads("--secret-file", options.transport.secret_file);
  if (options.json != "-") files.writes("--json", options.json);
  files.writes("--report", options.report);
  RETURN_IF_ERROR(check_distinct(files));
  for (const std::string& output : {options.json, options.report}) {
    if (output.empty() || output == "-") continue;
    RETURN_IF_ERROR(OutputFile::check(output));
  }
  if (!options.bench.perftest) return absl::OkStatus();
  if (!backend_of(options.transport).find_device) {
    return absl::InvalidArgumentError(fmt::format(
        "--perftest needs --transport {}: perftest knows RDMA devices only", schemes_with_devices()));
  }
  for (const std::string& tool : bench::perftest_tools()) {
    if (!is_installed(tool)) {
      return absl::FailedPreconditionError(
          fmt::format("--perftest: {} is not installed (package perftest)", tool));
    }
  }
  return absl::OkStatus();
}

/// The secret of both sides: with two hosts, as given on the command line; else this process makes it and
/// tells it to the other side.
absl::Status decide_secret(BenchCommand& options, const job::LaunchLetter& letter) {
  absl::StatusOr<bench::SharedSecret> secret = nullptr;
  if (letter.rendezvous >= 0) {
    secret = job::take_over_secret(letter.rendezvous);
    ::close(letter.rendezvous);
  } else if (options.listens || !options.connect.empty()) {
    return take_secret(options.transport);
  } else {
    secret = transport::Secret::random();
  }
  if (!secret.ok()) return secret.status();
  options.transport.secret = *std::move(secret);
  return absl::OkStatus();
}

int run_bench(BenchCommand& options, const job::LaunchLetter& letter) {
  if (absl::Status status = check(options); !status.ok()) return report_error(status);
  if (absl::Status status = decide_secret(options, letter); !status.ok()) return report_error(status);
  const transport::Backend& chosen = backend_of(options.transport);
  absl::StatusOr<std::string> listen = full_address(chosen, options.listen, "--listen", false);
  if (options.listens && !listen.ok()) return report_error(listen.status());
  if (!options.connect.empty()) {
    const auto connect = full_address(chosen, options.connect, "--connect", true);
    if (!connect.ok()) return report_error(connect.status());
  }
  if (options.bench.rounds == 0) options.bench.rounds = options.bench.perftest ? kRoundsWithPerftest : 1;
  const absl::StatusOr<bench::Backend> backend = bench::measured_backend(
      chosen, {.secret = options.transport.secret,
               .tls = options.transport.tls,
               .device = options.transport.device,
               .device_port = static_cast<std::uint8_t>(options.transport.device_port),
               .streams = options.transport.streams,
               .send_depth = static_cast<std::uint32_t>(options.bench.depth)});
  if (!backend.ok()) return report_error(backend.status());
  return options.listens ? respond(letter, *backend, *listen) : measure(options, *backend);
}

void add_measurement_options(CLI::App& command, bench::BenchOptions& options) {
  command
      .add_option("--operations", options.operations,
                  fmt::format("Measure these only: {}.", absl::StrJoin(bench::operation_names(), ", ")))
      ->type_name(absl::StrJoin(bench::operation_names(), "|"))
      ->option_text("NAMES")
      ->delimiter(',')
      ->check(one_of(bench::operation_names()))
      ->group(kMeasurements);
  add_number(command, "--sizes", options.sizes_bytes,
             "Bytes of a transfer, for read, write, write-complete and write-notify; multiples of 8.")
      ->type_name("SIZES")
      ->delimiter(',')
      ->check(transfer_size())
      ->group(kMeasurements)
      ->default_str(absl::StrJoin(options.sizes_bytes, ","));
  add_number(command, "--seconds", options.timing.seconds,
             "Length of each measurement; a tenth more to warm up.", {0.01, 60})
      ->type_name("SECONDS")
      ->group(kMeasurements)
      ->capture_default_str();
  add_number(
      command, "--depth", options.depth,
      "Requests under way on each connection where bandwidth is measured. More hides latency, and takes "
      "more of the device's memory.",
      {1, kMostRequests})
      ->type_name("N")
      ->group(kMeasurements)
      ->capture_default_str();
  add_number(
      command, "--batch", options.batch,
      "Requests posted together: in read-batch, and where bandwidth is measured (there at most a quarter "
      "of the depth).",
      {1, kMostRequests})
      ->type_name("N")
      ->group(kMeasurements)
      ->capture_default_str();
  add_number(command, "--connections", options.connections,
             "Connections over which bandwidth is measured, driven by one thread.", {1, 256})
      ->type_name("N")
      ->group(kMeasurements)
      ->capture_default_str();
  command
      .add_flag("--perftest", options.perftest,
                "Measure each figure of the transport beside perftest's own: ib_read_lat, ib_write_lat, "
                "ib_read_bw, "
                "ib_write_bw on the same device, by turns with ours. Both sides need the package perftest.")
      ->group(kMeasurements);
  add_number(command, "--replicas", options.replicas, "Copies of the server in push-copied.",
             {1, kMostReplicas})
      ->type_name("K")
      ->group(kMeasurements)
      ->capture_default_str();
  add_number(command, "--checkpoint-mib", options.checkpoint_mib,
             "Mebibytes of the table that is saved in checkpoint; it takes four times as much memory.",
             {1, 100'000})
      ->type_name("MIB")
      ->group(kMeasurements)
      ->capture_default_str();
  command
      .add_option("--folder", options.checkpoint_folder,
                  "Where checkpoint writes, and removes all in the end: on the disk that is meant.")
      ->type_name("FOLDER")
      ->group(kMeasurements)
      ->capture_default_str();
  add_number(command, "--rounds", options.rounds,
             "How often a figure of the transport and perftest's are measured by turns.", {1, 1000})
      ->type_name("N")
      ->group(kMeasurements)
      ->default_str(fmt::format("{} with --perftest, else 1", kRoundsWithPerftest));
}

void add_bench_options(CLI::App& command, BenchCommand& options) {
  options.bench.rounds = 0;  // not given
  add_measurement_options(command, options.bench);
  command
      .add_option(
          "--listen", options.listen,
          fmt::format(
              "Be the other side, for one measuring process after the other: at HOST:PORT (verbs and tcp; "
              "by default {} of the device, or of this host alone) or NAME (shm; by default {}).",
              kDefaultPort, kDefaultName))
      ->type_name("[ADDRESS]")
      ->expected(0, 1)
      ->group(kSides);
  command
      .add_option("--connect", options.connect,
                  "Measure against who listens at HOST:PORT (verbs and tcp) or NAME (shm); without it a "
                  "process of this host is started for that.")
      ->type_name("ADDRESS")
      ->group(kSides);
  add_transport_options(command, options.transport, kSides);
  add_secret_options(command, options.transport, kSides);
  command
      .add_option(
          "--json", options.json,
          "Write the results with histograms as JSON (docs/benchmarks.md); - writes it instead of the table.")
      ->type_name("FILE")
      ->group("Output");
  command
      .add_option("--report", options.report,
                  "Write a page with latencies and bandwidth by size, for any browser.")
      ->type_name("FILE.html")
      ->group("Output");
}

}  // namespace

void add_bench_command(CLI::App& program, Run* run) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App* command = program.add_subcommand(
      "bench",
      "measure the latency and bandwidth of the transport and of tables\n\nThe other side is a second "
      "process, of "
      "this host or another. Each figure stands beside its yardstick, measured in the same run: memcpy of "
      "the same "
      "bytes, a cache line handed to another core and back, or perftest. Times are those of perftest: a "
      "write is "
      "half a round trip, a read a whole one. docs/benchmarks.md says how to read the tables.");
  add_bench_options(*command, *options);
  command->footer(examples({"verbena bench", "verbena bench --operations read,write-notify --sizes 8,65536",
                            "verbena bench --transport verbs --perftest --report bench.html",
                            "verbena bench --listen --secret-file secret              (on the host node2)",
                            "verbena bench --connect node2:7471 --secret-file secret  (on another)"}));
  command->callback([options, run, command] {
    options->listens = command->get_option("--listen")->count() > 0;
    *run = [options](const job::LaunchLetter& letter) { return run_bench(*options, letter); };
  });
}

}  // namespace verbena::apps
