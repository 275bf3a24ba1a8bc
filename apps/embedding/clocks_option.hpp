// --clocks-per-iteration of applications that train their examples clock by clock: how often in a pass over
// the data a worker sees what the others have learnt, and they what it has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/embedding/allocation.hpp"
#include <verbena/session.hpp>

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// Whether a worker sees what the others have trained with its next mini-batches. Otherwise it does so when a
/// clock has ended.
bool sees_mini_batches(const ConsistencyModel& consistency, RowAllocation allocation);

/// How large the clocks of an application's training are, in its examples.
struct ClockSize {
  /// All workers together train at most so many in a clock, so that none is long.
  double most = 1;
  /// What a worker learns of a row in a clock, the others do not know, and learn it, too; with too much of
  /// that, the sum goes too far. So what all of them train in a clock, for each worker that does not see it,
  /// is at most so many.
  double most_unseen = 1;
  /// A worker trains at least so many in a clock, or telling the others costs more than training.
  double least_of_worker = 1;
};
struct ClockedJob {
  std::uint64_t examples = 0;  ///< of all workers
  std::uint32_t workers = 1;
  bool sees_mini_batches = false;
  std::uint32_t staleness = 0;  ///< clocks that the others' updates may be missing longer
};
/// How many clocks an iteration should have. At least 1.
std::int64_t clocks_for(const ClockedJob& job, const ClockSize& size);

class ClocksOption {
 public:
  /// The name of the option, without dashes.
  static constexpr std::string_view kName = "clocks-per-iteration";
  /// What the summary says of it.
  static constexpr const char* kInSummary = "clocks_per_iteration";

  /// `examples`: what they are, "triples".
  explicit ClocksOption(std::string_view examples, const ClockSize& size)
      : examples_(examples), size_(size) {}

  void add(CLI::App& command);
  /// INVALID_ARGUMENT in one line.
  [[nodiscard]] absl::Status check() const;
  /// Application::leaves_open()
  [[nodiscard]] bool leaves_open() const { return given_ == 0; }
  /// Application::chosen(): nullopt as long as the data decides.
  [[nodiscard]] std::optional<std::string> chosen() const;
  /// Application::goes_on_from(). A given number is compared with that of the checkpoint by who calls it.
  void goes_on_from(const std::map<std::string, std::string>& notes);

  /// As given, else as saved, else by the job.
  [[nodiscard]] std::int64_t clocks(const ClockedJob& job) const;
  /// The same for a worker whose tables have this allocation, with `examples` of all workers; notes it for
  /// those who go on from its checkpoints, and says it in the summary. FAILED_PRECONDITION: another worker
  /// has found another number, as from other data; they would wait for each other. Collective.
  absl::StatusOr<std::int64_t> agreed(WorkerContext& context, std::uint64_t examples,
                                      RowAllocation allocation) const;

 private:
  const std::string_view examples_;
  const ClockSize size_;
  std::int64_t given_ = 0;             ///< 0: left open
  std::optional<std::int64_t> saved_;  ///< of the checkpoint that the run goes on from
};

}  // namespace verbena::apps
