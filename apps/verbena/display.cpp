#include "apps/verbena/display.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "apps/verbena/console.hpp"
#include "apps/verbena/format.hpp"

namespace verbena::apps {
namespace {

constexpr double kLiveSeconds = 0.1;   // between two drawings
constexpr double kPlainSeconds = 2.0;  // between two plain lines
constexpr std::size_t kBarCells = 20;

std::size_t columns(std::FILE* terminal) {
  winsize size = {};
  return ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double share) {
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kBarCells);
  return fmt::format("[{}{}]", std::string(full, '='), std::string(kBarCells - full, ' '));
}

}  // namespace

Display::Mode Display::mode_for(std::FILE* progress, bool quiet) {
  if (quiet) return Mode::kNone;
  return ::isatty(::fileno(progress)) == 1 ? Mode::kLive : Mode::kPlain;
}

void Display::print(std::string_view line) {
  erase();
  put(out_, line);
  put(out_, "\n");
  std::fflush(out_);
}

void Display::iteration(const IterationRecord& record, double now_seconds) {
  what_.clear();
  part_done_.clear();
  if (!first_) first_ = record;
  latest_ = record;
  latest_shown_ = false;
  const auto objective = record.objectives.find(settings_.main_objective);
  if (objective != record.objectives.end()) main_objective_ = objective->second;
  show(now_seconds, record.iteration >= settings_.iterations);
}

void Display::progress(const ProgressMessage& message, double now_seconds) {
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
    put(progress_, line + "\n");
  } else {
    // One line at most, or it could not be taken back; the last column would wrap on some terminals.
    put(progress_, "\r\x1b[K" + line.substr(0, columns(progress_) - 1));
    drawn_ = true;
  }
  std::fflush(progress_);
}

void Display::erase() {
  if (!drawn_) return;
  put(progress_, "\r\x1b[K");
  std::fflush(progress_);
  drawn_ = false;
}

void Display::finish() {
  if (mode_ == Mode::kPlain && !latest_shown_) draw(latest_->elapsed_seconds);
  erase();
}

std::string Display::training_line(double now_seconds) const {
  const auto iterations = static_cast<double>(std::max<std::int64_t>(settings_.iterations, 1));
  std::string line = settings_.model;
  if (mode_ == Mode::kLive) line += " " + bar(static_cast<double>(latest_->iteration) / iterations);
  line += fmt::format(" {}/{}", latest_->iteration, settings_.iterations);
  if (main_objective_) {
    line += fmt::format("  {} {}", settings_.main_objective, format_objective(*main_objective_));
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
  std::string line = fmt::format("{}: {}", settings_.model, what_);
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
