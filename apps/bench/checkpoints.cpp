// What a checkpoint costs: how long training stands for it, and how fast it is written.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/bench/job.hpp"
#include "apps/bench/operations.hpp"
#include "base/return_if_error.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::bench {
namespace {

constexpr std::size_t kRounds = 5;  // of each figure, by turns with its yardstick
constexpr std::uint32_t kSavedWidth = 64;
constexpr std::uint64_t kFilledRows = 4096;                // a clock
constexpr std::size_t kTrainedRows = 1000;                 // a clock, beside the writing
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;  // as dd bs=1M
constexpr double kMostOfMemcpy = 1.5;
constexpr double kLeastOfWriting = 0.8;

/// A folder of this run's own in the user's.
class OwnFolder {
 public:
  static absl::StatusOr<OwnFolder> make(const std::string& above) {
    std::error_code error;
    // The other side writes there, too, from wherever it was started.
    const std::filesystem::path path =
        std::filesystem::absolute(above, error) / fmt::format("verbena-bench-{}", ::getpid());
    if (!error) std::filesystem::create_directories(path, error);
    if (error) return absl::UnavailableError(fmt::format("--folder {}: {}", above, error.message()));
    return OwnFolder(path);
  }
  OwnFolder(OwnFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  OwnFolder& operator=(OwnFolder&&) = delete;
  ~OwnFolder() {
    std::error_code none;
    if (!path_.empty()) std::filesystem::remove_all(path_, none);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void clear() const {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(path_, none))
      std::filesystem::remove_all(entry.path(), none);
  }

 private:
  explicit OwnFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

absl::Status cannot_write(const std::filesystem::path& path) {
  return absl::UnavailableError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

/// A new file with these bytes, as `dd bs=1M conv=fsync` makes it.
absl::Status write_and_sync(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return cannot_write(path);
  absl::Status status;
  while (!bytes.empty() && status.ok()) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kBlockBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) status = cannot_write(path);
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (status.ok() && ::fsync(file) != 0) status = cannot_write(path);
  if (::close(file) != 0) status.Update(cannot_write(path));
  return status;
}

class Saving {
 public:
  Saving(Session& session, Table<float> table, std::uint64_t rows, const OwnFolder& folder)
      : session_(session), table_(table), rows_(rows), folder_(folder) {
    keys_.resize(std::min<std::uint64_t>(kTrainedRows, rows));
    std::iota(keys_.begin(), keys_.end(), Key{0});
    for (Key& key : keys_) key = key * (rows / keys_.size());
  }

  /// Memory that nobody has written to is none, and would be copied for nothing.
  absl::Status fill() {
    std::vector<float> values(kFilledRows * kSavedWidth);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0F / static_cast<float>(i + 1);
    for (std::uint64_t first = 0; first < rows_; first += kFilledRows) {
      const std::uint64_t count = std::min(kFilledRows, rows_ - first);
      RETURN_IF_ERROR(table_.push(KeyRange{first, first + count},
                                  std::span<const float>(values).first(count * kSavedWidth)));
      RETURN_IF_ERROR(session_.clock());
    }
    return session_.barrier();
  }

  /// Until training may go on.
  absl::StatusOr<double> stand() {
    const Stopwatch watch;
    RETURN_IF_ERROR(session_.checkpoint({.folder = folder_.path().string()}, {}));
    return watch.nanoseconds();
  }
  /// Until it is on the disk, since stand() has returned.
  absl::StatusOr<double> finish() {
    const Stopwatch watch;
    RETURN_IF_ERROR(session_.finish_checkpoint());
    return watch.nanoseconds();
  }
  /// Pushes to rows all over the table, for so long.
  absl::Status train(double nanoseconds, Samples& clocks) {
    const std::vector<float> updates(keys_.size() * kSavedWidth, 1);
    const Stopwatch all;
    do {
      const Stopwatch one;
      RETURN_IF_ERROR(table_.push(keys_, updates));
      RETURN_IF_ERROR(session_.clock());
      clocks.add(one.nanoseconds());
    } while (all.nanoseconds() < nanoseconds);
    return absl::OkStatus();
  }

 private:
  Session& session_;
  const Table<float> table_;
  const std::uint64_t rows_;
  const OwnFolder& folder_;
  std::vector<Key> keys_;
};

/// All that is timed, a sample a round.
struct SavingTimes {
  Samples first;
  Samples stood;
  Samples copied;  ///< by memcpy
  Samples written;
  Samples written_plainly;
  Samples clocks;  ///< of training
  Samples clocks_beside;
};

absl::Status time_rounds(Saving& saving, const OwnFolder& folder, std::size_t bytes, SavingTimes& times) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  const auto first = saving.stand();
  if (!first.ok()) return first.status();
  times.first.add(*first);
  RETURN_IF_ERROR(saving.finish().status());
  for (std::size_t round = 0; round < kRounds; ++round) {
    folder.clear();  // a checkpoint that is not the first would have to remove others
    const auto stood = saving.stand();
    if (!stood.ok()) return stood.status();
    times.stood.add(*stood);
    const auto written = saving.finish();
    if (!written.ok()) return written.status();
    times.written.add(*written);

    const Stopwatch copy;
    std::memcpy(to.data(), from.data(), bytes);
    times.copied.add(copy.nanoseconds());
    from.swap(to);  // so that no copy can be left out

    const Stopwatch write;
    RETURN_IF_ERROR(write_and_sync(folder.path() / "plain", from));
    times.written_plainly.add(write.nanoseconds());

    RETURN_IF_ERROR(saving.train(*written, times.clocks));
    folder.clear();
    RETURN_IF_ERROR(saving.stand().status());
    RETURN_IF_ERROR(saving.train(*written, times.clocks_beside));
    RETURN_IF_ERROR(saving.finish().status());
  }
  return absl::OkStatus();
}

void report_saving(const SavingTimes& times, std::size_t bytes, Report& report) {
  using Figure = Yardstick::Figure;
  const auto by_memcpy = [&](std::optional<double> budget) {
    return Yardstick{
        .name = "memcpy of as many bytes", .value = times.copied.percentile(0.5), .budget = budget};
  };
  report.results.push_back(
      {.operation = "checkpoint-first",
       .what = "how long training stands for the first checkpoint, when the server takes memory for copies",
       .bytes = bytes,
       .samples = times.first,
       .yardsticks = {by_memcpy(std::nullopt)}});
  report.results.push_back({.operation = "checkpoint-stand",
                            .what = "how long it stands for each other one: checkpoint(), a barrier included",
                            .bytes = bytes,
                            .samples = times.stood,
                            .yardsticks = {by_memcpy(kMostOfMemcpy)}});
  // The medians of the rounds: one in which the disk was busy with something else must not count.
  const auto rate = [&](const Samples& samples) {
    return static_cast<double>(bytes) * 1e9 / samples.percentile(0.5);
  };
  report.results.push_back({.operation = "checkpoint-write",
                            .what = "from then on, until all of it is on the disk: finish_checkpoint()",
                            .bytes = bytes,
                            .samples = times.written,
                            .yardsticks = {{.name = "as many bytes written to a file there, and fsync",
                                            .figure = Figure::kBandwidth,
                                            .value = rate(times.written_plainly),
                                            .budget = kLeastOfWriting,
                                            .ours = rate(times.written)}}});
  constexpr const char* kWithout = "the same when none is written";
  report.results.push_back(
      {.operation = "checkpoint-beside",
       .what = "push of up to 1000 rows of 64 floats all over the table and clock() under BSP, while a "
               "checkpoint is written",
       .bytes = 0,
       .samples = times.clocks_beside,
       .yardsticks = {{.name = kWithout, .figure = Figure::kMedian, .value = times.clocks.percentile(0.5)},
                      {.name = kWithout, .figure = Figure::kP99, .value = times.clocks.percentile(0.99)}}});
}

}  // namespace

absl::Status measure_checkpoints(const BenchOptions& options, const Backend& backend, Client& client,
                                 Report& report) {
  if (!backend.on_one_host || !options.names(kCheckpoint)) return absl::OkStatus();
  options.progress(kCheckpoint);
  auto folder = OwnFolder::make(options.checkpoint_folder);
  if (!folder.ok()) return folder.status();
  auto job = Job::start(backend, client, ReadPath::kAuto);
  if (!job.ok()) return job.status();
  const std::uint64_t rows =
      std::uint64_t{options.checkpoint_mib} * (std::uint64_t{1} << 20) / (kSavedWidth * sizeof(float));
  const std::size_t bytes = rows * kSavedWidth * sizeof(float);
  auto table = (*job)->session().table<float>(
      {.name = "rows", .rows = rows, .width = kSavedWidth, .consistency = Bsp{}});
  if (!table.ok()) return table.status();
  Saving saving((*job)->session(), *std::move(table), rows, *folder);
  RETURN_IF_ERROR(saving.fill());
  SavingTimes times;
  RETURN_IF_ERROR(time_rounds(saving, *folder, bytes, times));
  report_saving(times, bytes, report);
  return absl::OkStatus();
}

}  // namespace verbena::apps::bench
