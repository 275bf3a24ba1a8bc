// What a copy of the server costs an update that is waited for.
#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/job.hpp"
#include "apps/bench/operations.hpp"
#include "base/cores.hpp"
#include "base/return_if_error.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::bench {
namespace {

constexpr std::size_t kTurns = 5;  // of each of the two
constexpr std::uint32_t kFloats = 2;
constexpr double kMostWithCopies = 2.2;
constexpr const char* kSequentialWhat =
    "push of one row of 8 bytes under sequential consistency, until the server has applied it";

/// Both kinds of pushes, turn by turn.
struct SequentialPushes {
  Samples all;
  Samples medians;             ///< one a turn
  double bytes_to_copies = 0;  ///< an operation
  double server_cores = 0;     ///< what the other side has used of them, on average over all turns

  void add(const Samples& turn, double cores) {
    all.merge(turn);
    medians.add(turn.percentile(0.5));
    server_cores += cores / kTurns;
  }
};

absl::Status time_turn(const BenchOptions& options, const Backend& backend, Client& client,
                       std::uint32_t copies, bool shares_cores, SequentialPushes& pushes) {
  auto job = Job::start_with_copies(backend, client, copies, shares_cores);
  if (!job.ok()) return job.status();
  auto table = (*job)->session().table<float>(
      {.name = "rows", .rows = 16, .width = kFloats, .consistency = Sequential{}});
  if (!table.ok()) return table.status();
  const std::vector<float> update(kFloats, 1);
  const Key key = 3;
  TimingOptions timing = options.timing;
  timing.batch_nanoseconds = 0;  // each push is timed by itself
  timing.seconds /= kTurns;
  const auto before = client.processor_nanoseconds();
  if (!before.ok()) return before.status();
  const Stopwatch watch;
  Samples turn;
  std::uint64_t operations = 0;
  RETURN_IF_ERROR(time_operation(
      timing,
      [&] {
        ++operations;
        return table->push(std::span(&key, 1), update);
      },
      turn));
  const double elapsed_ns = watch.nanoseconds();
  const auto after = client.processor_nanoseconds();
  if (!after.ok()) return after.status();
  pushes.add(turn, (*after - *before) / elapsed_ns);
  const auto bytes = (*job)->end();
  if (!bytes.ok()) return bytes.status();
  if ((copies > 0) != (*bytes > 0))
    return absl::InternalError("the other side has started a server with other copies than were asked for");
  pushes.bytes_to_copies += static_cast<double>(*bytes) / static_cast<double>(operations) / kTurns;
  return absl::OkStatus();
}

}  // namespace

absl::Status measure_copies(const BenchOptions& options, const Backend& backend, Client& client,
                            Report& report) {
  const bool copied = options.wants(kPushCopied);
  if (!backend.on_one_host || !(copied || options.wants(kPushSequential))) return absl::OkStatus();
  options.progress(kPushCopied);
  // The worker, the server and its copies: whoever waits must not keep a core from another one. Without
  // copies it is the same, so that the two differ in nothing else.
  const std::uint32_t threads = 2 + options.replicas;
  const bool shares_cores = threads > base::cores_at_hand();
  SequentialPushes without;
  SequentialPushes with;
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    RETURN_IF_ERROR(time_turn(options, backend, client, 0, shares_cores, without));
    if (copied) RETURN_IF_ERROR(time_turn(options, backend, client, options.replicas, shares_cores, with));
  }
  if (options.wants(kPushSequential)) {
    Result result{
        .operation = kPushSequential, .what = kSequentialWhat, .bytes = 8, .keys = 1, .samples = without.all};
    auto round_trip = time_round_trip(options, backend, client);
    if (!round_trip.ok()) return round_trip.status();
    result.yardsticks.push_back(*std::move(round_trip));
    report.results.push_back(std::move(result));
  }
  if (shares_cores)
    report.notes.push_back(fmt::format(
        "push-sequential, push-copied: the worker, the server and its copies, {} threads, have {} cores: who "
        "waits sleeps, with copies and without, and times are mostly those of waking",
        threads, base::cores_at_hand()));
  if (!copied) return absl::OkStatus();
  report.results.push_back(
      {.operation = kPushCopied,
       .what = fmt::format("the same, when {} of the server {} it, too: by turns with pushes without copies. "
                           "{:.0f} bytes a push went to copies; the other side used {:.2f} cores, without "
                           "copies {:.2f}",
                           options.replicas == 1 ? "a copy" : fmt::format("{} copies", options.replicas),
                           options.replicas == 1 ? "has" : "have", with.bytes_to_copies, with.server_cores,
                           without.server_cores),
       .bytes = 8,
       .keys = 1,
       .samples = with.all,
       .yardsticks = {{.name = "the same without copies",
                       .value = without.medians.percentile(0.5),
                       .budget = kMostWithCopies,
                       .ours = with.medians.percentile(0.5)}}});
  return absl::OkStatus();
}

}  // namespace verbena::apps::bench
