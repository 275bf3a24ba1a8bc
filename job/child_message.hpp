// What a worker or server process says to the process that started it: one JSON object per line.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/session.hpp>

namespace verbena::job {

struct IterationMessage {
  std::uint32_t worker = 0;
  IterationReport report;
};
struct ProgressMessage {
  std::uint32_t worker = 0;
  std::string what;
  double done = 0;
  double total = 0;
};
struct PrintMessage {
  std::string line;
};
struct SummaryMessage {
  std::string name;
  nlohmann::json value;
};
/// What a session counts, by its name in messages and metrics.
struct SessionCount {
  const char* name;
  std::uint64_t SessionStatistics::*value;
};
inline constexpr std::array<SessionCount, 12> kSessionCounts = {
    {{"rows_pulled", &SessionStatistics::rows_pulled},
     {"rows_gathered", &SessionStatistics::rows_gathered},
     {"rows_pushed", &SessionStatistics::rows_pushed},
     {"rows_eagerly_received", &SessionStatistics::rows_eagerly_received},
     {"rows_shipped", &SessionStatistics::rows_shipped},
     {"rows_kept_back", &SessionStatistics::rows_kept_back},
     {"update_bytes", &SessionStatistics::update_bytes},
     {"rows_shipped_ahead", &SessionStatistics::rows_shipped_ahead},
     {"value_bound_waits", &SessionStatistics::value_bound_waits},
     {"requests_posted", &SessionStatistics::requests_posted},
     {"bytes_posted", &SessionStatistics::bytes_posted},
     {"doorbells_rung", &SessionStatistics::doorbells_rung}}};
/// The same for its dynamic tables.
inline constexpr std::array<SessionCount, 11> kDynamicRowCounts = {
    {{"rows_pulled_locally", &SessionStatistics::rows_pulled_locally},
     {"rows_pulled_remotely", &SessionStatistics::rows_pulled_remotely},
     {"rows_pushed_locally", &SessionStatistics::rows_pushed_locally},
     {"rows_pushed_remotely", &SessionStatistics::rows_pushed_remotely},
     {"rows_localized", &SessionStatistics::rows_localized},
     {"rows_moved_by_intent", &SessionStatistics::rows_moved_by_intent},
     {"rows_replicated", &SessionStatistics::rows_replicated},
     {"rows_refreshed", &SessionStatistics::rows_refreshed},
     {"rows_pulled_from_replicas", &SessionStatistics::rows_pulled_from_replicas},
     {"rows_pushed_to_replicas", &SessionStatistics::rows_pushed_to_replicas},
     {"locations_asked", &SessionStatistics::locations_asked}}};

/// What a worker's session has counted so far. It comes between iterations, but not with each of them
/// (StatisticsTimer): an iteration may take less than a millisecond.
struct StatisticsMessage {
  std::uint32_t worker = 0;
  double seconds = 0;  ///< since the start of run_worker(), or of the session
  SessionStatistics statistics;
};
/// A worker has trained to the end.
struct FinishedMessage {
  std::uint32_t worker = 0;
  double seconds = 0;  ///< from the start of run_worker() to its end
  SessionStatistics statistics;
};
/// How close a failure is to the cause, the closest first. Of a job's failures the closest is reported.
enum class Cause : std::uint8_t { kKilled, kOwnError, kSilentEnd, kPeerGone, kFollowed, kNone };

/// The process cannot go on and is about to exit.
struct FailedMessage {
  absl::Status status;
  std::optional<Cause> cause = std::nullopt;  ///< nullopt: to be told from the status
};

/// Of a server: that worker shows no sign of life, and another process could take its place.
struct SilentWorkerMessage {
  std::uint32_t worker = 0;
  std::string why;
};

/// Of a server that has copies, or is one: what it has sent to the copy after it when it ends.
struct ServedMessage {
  std::uint64_t bytes_to_copies = 0;
};

/// A signal has come, because of which the process ends. Sent on a cluster before anything comes of it, so
/// that what others see of that is not taken for a failure.
struct SignaledMessage {
  int signal = 0;
};

/// A signal has come, because of which all workers of the job are to save and end together. Sent on a
/// cluster.
struct AskedToStopMessage {
  int signal = 0;
};

/// The answer of a process whose workers begin no other iteration until they hear after which one they end.
struct HeldMessage {
  std::int64_t begun = 0;     ///< the largest that any of them has begun; 0: none has begun one
  bool has_finished = false;  ///< one of them has trained to the end
};

/// The process's last message: another one is to be its workers, of whom nothing more comes from this one.
struct SteppedAsideMessage {};

/// The process's last message: it ends on purpose. Sent on a cluster, where nobody gets its wait status.
struct EndedMessage {
  int status = 0;  ///< its exit status; 0 also if it has saved, since it was asked to stop
};

using ChildMessage =
    std::variant<IterationMessage, StatisticsMessage, ProgressMessage, PrintMessage, SummaryMessage,
                 FinishedMessage, ServedMessage, FailedMessage, SilentWorkerMessage, SignaledMessage,
                 AskedToStopMessage, HeldMessage, SteppedAsideMessage, EndedMessage>;

/// When it is time for the next StatisticsMessage: seldom enough to cost nothing.
class StatisticsTimer {
 public:
  /// True at first, and then when kBetween has passed since it was true.
  bool is_due() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + kBetween;
    return true;
  }

 private:
  static constexpr auto kBetween = std::chrono::milliseconds(250);
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::time_point::min();
};

/// One line, with its newline. Numbers that JSON does not have (NaN, infinity) are written as null and come
/// back as NaN.
std::string encode(const ChildMessage& message);
/// INVALID_ARGUMENT for anything that encode() does not write.
absl::StatusOr<ChildMessage> decode(std::string_view line);

/// What both a worker's last message and the metrics say about its session.
nlohmann::json statistics_json(const SessionStatistics& statistics);

/// JSON as it leaves this program: bytes that are not UTF-8 are replaced, and what printable() escapes is
/// escaped. `indent`: spaces per level; −1: all in one line.
std::string to_text(const nlohmann::json& json, int indent = -1);
/// As to_text(), with a newline at the end.
std::string to_line(const nlohmann::json& json, int indent = -1);

}  // namespace verbena::job
