#include "apps/bench/operations.hpp"

#include <algorithm>

#include "apps/bench/yardsticks.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::bench {

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> kNames{"read",
                                               "read-batch",
                                               "read-busy",
                                               "write",
                                               "write-complete",
                                               "write-notify",
                                               "pull",
                                               "pull-large",
                                               "pull-in-place",
                                               "pull-batch",
                                               "pull-batch-in-place",
                                               "push",
                                               "push-batch",
                                               "push-add",
                                               "push-adagrad",
                                               "push-ftrl",
                                               "push-sparse-add",
                                               "push-sparse-adagrad",
                                               "push-sparse-ftrl",
                                               "pull-sparse",
                                               "pull-located",
                                               "pull-sparse-read",
                                               "pull-sparse-gather",
                                               "pull-narrow-read",
                                               "pull-narrow-gather",
                                               std::string(kGatherCrossover),
                                               std::string(kPullGrowing),
                                               "push-applied",
                                               kPushSequential,
                                               kPushCopied,
                                               "push-visible",
                                               "clock",
                                               "subscribe",
                                               "pull-local",
                                               "push-local",
                                               "localize",
                                               "idle-server",
                                               kCheckpoint};
  return kNames;
}

bool BenchOptions::wants(std::string_view operation) const {
  return operations.empty() || std::find(operations.begin(), operations.end(), operation) != operations.end();
}

bool BenchOptions::names(std::string_view operation) const {
  return !operations.empty() && wants(operation);
}

absl::StatusOr<Report> measure(const BenchOptions& options, const Backend& backend,
                               const std::string& address) {
  auto client = Client::connect(backend, address, options.connections, memory_bytes(options));
  if (!client.ok()) return client.status();
  Report report;
  RETURN_IF_ERROR(measure_transport(options, backend, **client, report));
  RETURN_IF_ERROR(measure_tables(options, backend, **client, report));
  RETURN_IF_ERROR(measure_copies(options, backend, **client, report));
  RETURN_IF_ERROR(measure_checkpoints(options, backend, **client, report));
  RETURN_IF_ERROR(measure_growth(options, backend, **client, report));
  RETURN_IF_ERROR(measure_gather_crossover(options, backend, **client, report));
  return report;
}

absl::StatusOr<Yardstick> time_round_trip(const BenchOptions& options, const Backend& backend,
                                          Client& client) {
  if (backend.on_one_host) {
    return Yardstick{.name = "core round trip",
                     .value = time_core_round_trip(options.timing).percentile(0.5)};
  }
  constexpr std::size_t kBytes = 8;
  RETURN_IF_ERROR(client.set_echo(Echo::kNotification, kBytes));
  Samples samples;
  absl::Status status = time_operation(
      options.timing, [&] { return client.notify_and_back(kBytes); }, samples);
  status.Update(client.set_echo(Echo::kNone, 0));
  if (!status.ok()) return status;
  return Yardstick{.name = "write-notify of 8 B and back", .value = samples.percentile(0.5)};
}

}  // namespace verbena::apps::bench
