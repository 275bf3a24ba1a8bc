// From how many keys of a pull on the server had better gather the rows, which a session otherwise finds out
// table by table (SessionOptions::gather_row_bytes).
#include <array>
#include <utility>
#include <vector>

#include "apps/bench/job.hpp"
#include "apps/bench/operations.hpp"
#include "apps/bench/row_keys.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::bench {
namespace {

constexpr std::uint64_t kCrossoverRows = 1 << 18;
constexpr std::array<std::uint32_t, 3> kWidths = {1, 16, 64};
constexpr std::size_t kLeastKeys = 8;
constexpr std::size_t kMostKeys = 1024;
/// Of the usual time: there are many figures, of which only the order counts.
constexpr double kShareOfTime = 0.25;

/// The median of a pull for each number of keys, one way.
absl::StatusOr<std::vector<double>> time_pulls_one_way(const BenchOptions& options, const Backend& backend,
                                                       Client& client, std::uint32_t width, bool gathers) {
  auto job = Job::start(backend, client, ReadPath::kCached, 1, 1, gathers);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  const auto table = session.table<float>({.name = "rows",
                                           .key_space = KeySpace::kSparse,
                                           .width = width,
                                           .consistency = Sequential{},
                                           .expected_rows = kCrossoverRows});
  if (!table.ok()) return table.status();
  RETURN_IF_ERROR(make_rows(session, *table, kCrossoverRows));
  const std::vector<Key> keys = spread(shuffled_keys(kCrossoverRows, kCrossoverRows));
  std::vector<float> values(kMostKeys * width);
  // A row that has been read before takes one read; all have been, so that no figure depends on those before
  // it.
  for (std::size_t first = 0; first < keys.size(); first += kMostKeys)
    RETURN_IF_ERROR(table->pull(std::span(keys).subspan(first, kMostKeys), values));
  TimingOptions timing = options.timing;
  timing.seconds *= kShareOfTime;
  std::vector<double> medians;
  std::size_t next = 0;
  for (std::size_t count = kLeastKeys; count <= kMostKeys; count *= 2) {
    Samples samples;
    RETURN_IF_ERROR(time_operation(
        timing,
        [&] {
          const std::size_t first = std::exchange(next, (next + kMostKeys) % keys.size());
          return table->pull(std::span(keys).subspan(first, count), std::span(values).first(count * width));
        },
        samples));
    medians.push_back(samples.percentile(0.5));
  }
  return medians;
}

}  // namespace

absl::Status measure_gather_crossover(const BenchOptions& options, const Backend& backend, Client& client,
                                      Report& report) {
  if (!options.wants(kGatherCrossover)) return absl::OkStatus();
  options.progress(kGatherCrossover);
  for (const std::uint32_t width : kWidths) {
    const auto read = time_pulls_one_way(options, backend, client, width, /*gathers=*/false);
    if (!read.ok()) return read.status();
    const auto gathered = time_pulls_one_way(options, backend, client, width, /*gathers=*/true);
    if (!gathered.ok()) return gathered.status();
    GatherCrossover crossover{.row_floats = width, .pulls = {}};
    for (std::size_t i = 0; i < read->size(); ++i)
      crossover.pulls.push_back(
          {.keys = kLeastKeys << i, .read_ns = (*read)[i], .gathered_ns = (*gathered)[i]});
    report.crossovers.push_back(std::move(crossover));
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps::bench
