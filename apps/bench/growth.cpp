// A sparse table that grows while workers read it: what its readers and its lane notice of that.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "apps/bench/job.hpp"
#include "apps/bench/operations.hpp"
#include "apps/bench/row_keys.hpp"
#include "base/return_if_error.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::bench {
namespace {

constexpr std::uint32_t kReaders = 2;
constexpr std::uint32_t kWidth = 16;
constexpr std::size_t kPulledKeys = 100;
constexpr std::size_t kPushedKeys = 1000;  // a clock
constexpr std::size_t kFirstKeys = 1000;
constexpr double kUsualKeys = 1e7;
constexpr double kUsualSeconds = 0.3;  // TimingOptions::seconds for so many keys
constexpr double kMostPause = 5e5;     // nanoseconds

/// Ten million with the usual time, fewer with less: a multiple of kPushedKeys.
std::size_t all_keys(const TimingOptions& timing) {
  const double share = std::min(1.0, timing.seconds / kUsualSeconds);
  return kFirstKeys + kPushedKeys * static_cast<std::size_t>(kUsualKeys / kPushedKeys * share);
}

/// One worker that pushes and two that pull all the time, each in a thread of its own. A row's values are its
/// key's number, and must be that or, as long as the push is under way, 0.
class Growth {
 public:
  Growth(Job& job, std::vector<Key> keys) : job_(job), keys_(std::move(keys)) {}

  absl::Status open() {
    for (std::uint32_t rank = 0; rank <= kReaders; ++rank) {
      // Nothing is said of how many rows there will be, so that the table grows from its smallest size.
      auto table = job_.session(rank).table<float>(
          {.name = "rows", .key_space = KeySpace::kSparse, .width = kWidth, .consistency = Asp{}});
      if (!table.ok()) return table.status();
      tables_[rank] = *table;
    }
    RETURN_IF_ERROR(push(0, kFirstKeys, /*are_new=*/true));
    return await_last(kFirstKeys);
  }

  /// Keys [from, to) are pushed to while readers pull among all that have been: their times.
  absl::StatusOr<Samples> run(std::size_t from, std::size_t to, bool are_new) {
    pushed_ = are_new ? from : keys_.size();
    has_ended_ = false;
    std::array<Samples, kReaders> times;
    std::array<absl::Status, kReaders + 1> ends;
    std::vector<std::thread> readers;
    readers.reserve(kReaders);
    for (std::uint32_t reader = 0; reader < kReaders; ++reader) {
      readers.emplace_back([&, reader] {
        job_.session(reader + 1).take_over();
        ends[reader] = read(reader + 1, /*is_grown=*/!are_new, times[reader]);
        if (!ends[reader].ok()) has_ended_ = true;
      });
    }
    ends[kReaders] = push(from, to, are_new);
    has_ended_ = true;
    for (std::thread& reader : readers) reader.join();
    for (std::uint32_t rank = 1; rank <= kReaders; ++rank) job_.session(rank).take_over();
    for (const absl::Status& end : ends) RETURN_IF_ERROR(end);
    for (std::uint32_t reader = 1; reader < kReaders; ++reader) times[0].merge(times[reader]);
    if (times[0].empty()) return absl::InternalError("the table has grown before anybody could read it");
    return times[0];
  }

  /// Until all workers see the last of so many keys.
  absl::Status await_last(std::size_t count) {
    std::array<float, kWidth> values{};
    const auto number = static_cast<float>(count - 1);
    for (const Table<float>& table : tables_) {
      do {
        // Nobody waits for clocks here, and one thread drives all workers, so that a barrier would not end.
        RETURN_IF_ERROR(tables_[0].pull(std::span(keys_).subspan(count - 1, 1), values));
        RETURN_IF_ERROR(table.pull(std::span(keys_).subspan(count - 1, 1), values));
      } while (values[0] != number);
    }
    return absl::OkStatus();
  }

 private:
  /// Pushes to keys that are not new add nothing.
  absl::Status push(std::size_t from, std::size_t to, bool are_new) {
    std::vector<float> updates(kPushedKeys * kWidth);
    for (std::size_t first = from; first < to && !has_ended_; first += kPushedKeys) {
      if (are_new) {
        for (std::size_t i = 0; i < updates.size(); ++i) {
          const std::size_t number = first + i / kWidth;
          updates[i] = static_cast<float>(number);
        }
      }
      RETURN_IF_ERROR(tables_[0].push(std::span(keys_).subspan(first, kPushedKeys), updates));
      RETURN_IF_ERROR(job_.session(0).clock());
      if (are_new) pushed_ = first + kPushedKeys;
    }
    return absl::OkStatus();
  }

  absl::Status read(std::uint32_t rank, bool is_grown, Samples& times) {
    std::mt19937_64 random(rank);
    std::array<Key, kPulledKeys> asked{};
    std::array<std::size_t, kPulledKeys> which{};
    std::vector<float> values(kPulledKeys * kWidth);
    while (!has_ended_) {
      const std::size_t among = pushed_;
      for (std::size_t i = 0; i < kPulledKeys; ++i) asked[i] = keys_[which[i] = random() % among];
      const Stopwatch one;
      RETURN_IF_ERROR(tables_[rank].pull(asked, values));
      times.add(one.nanoseconds());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto number = static_cast<float>(which[i / kWidth]);  // exact: less than 2^24
        if (values[i] != number && (is_grown || values[i] != 0))
          return absl::InternalError("a pull has found another row's values while the table grew");
      }
    }
    return absl::OkStatus();
  }

  Job& job_;
  const std::vector<Key> keys_;
  std::array<Table<float>, kReaders + 1> tables_;  // by rank; 0 pushes
  std::atomic<std::size_t> pushed_ = 0;
  std::atomic<bool> has_ended_ = false;
};

}  // namespace

absl::Status measure_growth(const BenchOptions& options, const Backend& backend, Client& client,
                            Report& report) {
  if (!options.wants(kPullGrowing)) return absl::OkStatus();
  options.progress(kPullGrowing);
  auto job = Job::start(backend, client, ReadPath::kAuto, kReaders + 1);
  if (!job.ok()) return job.status();
  std::vector<Key> numbers(all_keys(options.timing));
  std::iota(numbers.begin(), numbers.end(), Key{0});
  const std::size_t count = numbers.size();
  Growth growth(**job, spread(std::move(numbers)));
  RETURN_IF_ERROR(growth.open());
  RETURN_IF_ERROR(client.pauses().status());
  auto grown = growth.run(kFirstKeys, count, /*are_new=*/true);
  if (!grown.ok()) return grown.status();
  auto pauses = client.pauses();
  if (!pauses.ok()) return pauses.status();
  RETURN_IF_ERROR(growth.await_last(count));
  const auto steady = growth.run(0, count, /*are_new=*/false);
  if (!steady.ok()) return steady.status();
  using Figure = Yardstick::Figure;
  constexpr const char* kSteady = "the same, with pushes to keys that are there";
  report.results.push_back(
      {.operation = kPullGrowing,
       .what = "pull of 100 rows of 16 floats of a sparse table by each of two workers, in threads of their "
               "own, while another one pushes new keys, from a thousand to ten million",
       .bytes = kPulledKeys * kWidth * sizeof(float),
       .keys = kPulledKeys,
       .samples = *std::move(grown),
       .yardsticks = {
           {.name = kSteady, .figure = Figure::kMedian, .value = steady->percentile(0.5), .budget = 2},
           {.name = kSteady, .figure = Figure::kP99, .value = steady->percentile(0.99), .budget = 2}}});
  if (pauses->empty()) return absl::OkStatus();
  report.results.push_back(
      {.operation = "lane-growing",
       .what =
           "how long the table's lane stands meanwhile, each time that it divides a segment of the table's "
           "index or takes more memory",
       .samples = *std::move(pauses),
       .yardsticks = {
           {.name = "half a millisecond", .figure = Figure::kP99, .value = kMostPause, .budget = 1}}});
  return absl::OkStatus();
}

}  // namespace verbena::apps::bench
