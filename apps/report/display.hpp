// What a run shows while it goes: on a terminal one line that is redrawn in place, elsewhere plain lines at
// intervals.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "apps/report/run_record.hpp"
#include "apps/report/summary.hpp"
#include "apps/report/terminal.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {

/// Seconds are counted from the start of the run; the caller reads the clock.
class Display {
 public:
  enum class Mode { kNone, kPlain, kLive };
  /// kLive on a terminal that can redraw, unless its lines are for programs, else kPlain; kNone if quiet.
  static Mode mode_for(std::FILE* progress, bool quiet);

  /// Printed lines go to `out`, progress to `progress`.
  Display(const RunSettings& settings, Mode mode, std::FILE* out, std::FILE* progress)
      : settings_(settings), mode_(mode), out_(out), progress_(progress), status_line_(progress) {}
  ~Display() = default;
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  [[nodiscard]] const RunSettings& settings() const { return settings_; }

  /// `lines` have no newline at the end; newlines in between stay.
  void print(std::string_view lines);
  /// As print(), of what has happened to the run's processes: for programs it is a warning.
  void warn(std::string_view lines);
  void iteration(const IterationRecord& record, double now_seconds);
  void progress(const job::ProgressMessage& message, double now_seconds);
  /// Redraws what changes with time alone.
  void tick(double now_seconds);
  /// Removes the live line, and shows the last iteration if it has not been shown yet.
  void finish();
  /// The run goes back to an earlier iteration, or to its beginning: forgets those that were shown.
  /// REQUIRES: finish() was called.
  void go_back();

 private:
  void show(double now_seconds, bool last);
  void draw(double now_seconds);
  [[nodiscard]] std::string who() const;
  [[nodiscard]] std::string training_line(double now_seconds) const;
  [[nodiscard]] std::string progress_line() const;
  [[nodiscard]] double seconds_left(double now_seconds) const;

  const RunSettings& settings_;
  const Mode mode_;
  std::FILE* const out_;
  std::FILE* const progress_;
  StatusLine status_line_;
  double shown_seconds_ = -1e9;  ///< when a line was last shown
  std::optional<IterationRecord> first_;
  std::optional<IterationRecord> latest_;
  bool latest_shown_ = true;
  std::optional<std::pair<std::string, double>> main_objective_;  ///< the newest
  std::string what_;                           ///< the slow part other than training; empty: none
  std::map<std::uint32_t, double> part_done_;  ///< how much of `what_` is done, by worker: 0 … 1
};

}  // namespace verbena::apps
