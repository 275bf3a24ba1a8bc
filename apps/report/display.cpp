#include "apps/report/display.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/report/console.hpp"
#include "apps/report/format.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

constexpr double kLiveSeconds = 0.1;   // between two drawings
constexpr double kPlainSeconds = 2.0;  // between two plain lines
constexpr std::size_t kBarCells = 20;

std::string bar(double share) {
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kBarCells);
  return fmt::format("[{}{}]", std::string(full, '='), std::string(kBarCells - full, ' '));
}

}  // namespace

Display::Mode Display::mode_for(std::FILE* progress, bool quiet) {
  if (quiet) return Mode::kNone;
  const bool is_for_programs = progress == stderr && log_format() == LogFormat::kJson;
  return !is_for_programs && terminal_use(progress).redraws ? Mode::kLive : Mode::kPlain;
}

void Display::print(std::string_view lines) {
  status_line_.erase();
  put(out_, base::printable_lines(lines) + "\n");
  flush(out_);
}

void Display::warn(std::string_view lines) {
  status_line_.erase();
  put_warning(out_, base::printable_lines(lines) + "\n");
  flush(out_);
}

void Display::iteration(const IterationRecord& record, double now_seconds) {
  what_.clear();
  part_done_.clear();
  if (!first_) first_ = record;
  latest_ = record;
  latest_shown_ = false;
  const auto objective = settings_.main_objective.empty() ? record.objectives.begin()
                                                          : record.objectives.find(settings_.main_objective);
  if (objective != record.objectives.end()) main_objective_ = *objective;
  show(now_seconds, settings_.iterations > 0 && record.iteration >= settings_.iterations);
}

void Display::progress(const job::ProgressMessage& message, double now_seconds) {
  if (message.what != what_) {
    what_ = message.what;
    part_done_.clear();
  }
  part_done_[message.worker] = message.total > 0 ? message.done / message.total : 1;
  show(now_seconds, false);
}

void Display::tick(double now_seconds) {
  if (mode_ == Mode::kLive && (latest_ || !what_.empty())) draw(now_seconds);
}

void Display::show(double now_seconds, bool last) {
  const double interval = mode_ == Mode::kLive ? kLiveSeconds : kPlainSeconds;
  if (mode_ == Mode::kNone || (!last && now_seconds < shown_seconds_ + interval)) return;
  draw(now_seconds);
}

void Display::draw(double now_seconds) {
  shown_seconds_ = now_seconds;
  const std::string line = what_.empty() ? training_line(now_seconds) : progress_line();
  if (what_.empty()) latest_shown_ = true;
  if (mode_ == Mode::kPlain) {
    put(progress_, base::printable(line) + "\n");
    flush(progress_);
  } else {
    status_line_.show(line);
  }
}

void Display::finish() {
  if (mode_ == Mode::kPlain && !latest_shown_) draw(latest_->elapsed_seconds);
  status_line_.erase();
}

void Display::go_back() {
  first_.reset();
  latest_.reset();
  latest_shown_ = true;
  main_objective_.reset();
  what_.clear();
  part_done_.clear();
}

/// If several processes share a terminal, each line names its process.
std::string Display::who() const {
  return settings_.process.empty() ? settings_.model
                                   : fmt::format("{}: {}", settings_.process, settings_.model);
}

std::string Display::training_line(double now_seconds) const {
  std::string line = who();
  if (settings_.iterations == 0) {
    line += fmt::format(" iteration {}", latest_->iteration);  // the total is unknown
  } else {
    const auto iterations = static_cast<double>(settings_.iterations);
    if (mode_ == Mode::kLive) line += " " + bar(static_cast<double>(latest_->iteration) / iterations);
    line += fmt::format(" {}/{}", latest_->iteration, settings_.iterations);
  }
  if (main_objective_) {
    line += fmt::format("  {} {}", main_objective_->first, format_objective(main_objective_->second));
  }
  if (latest_->seconds > 0) {
    line += "  " + format_rate(latest_->items / latest_->seconds, settings_.throughput_unit);
  }
  if (latest_->iteration < settings_.iterations) {
    line += fmt::format("  {} left", format_clock(seconds_left(now_seconds)));
  }
  return line;
}

std::string Display::progress_line() const {
  double sum = 0;
  for (const auto& [worker, share] : part_done_) sum += share;
  const double share = sum / static_cast<double>(std::max<std::size_t>(part_done_.size(), 1));
  std::string line = fmt::format("{}: {}", who(), what_);
  if (mode_ == Mode::kLive) line += " " + bar(share);
  return line + fmt::format(" {:.0f} %", 100 * share);
}

double Display::seconds_left(double now_seconds) const {
  const auto left = static_cast<double>(settings_.iterations - latest_->iteration);
  const auto between = static_cast<double>(latest_->iteration - first_->iteration);
  const double each =
      between > 0 ? (latest_->elapsed_seconds - first_->elapsed_seconds) / between : latest_->seconds;
  return std::max(0.0, left * each - (now_seconds - latest_->elapsed_seconds));
}

}  // namespace verbena::apps
