// How the end of one process becomes that of another one of its job.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/own_time.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// Ends this process when others of its job have ended, or have asked for it. Thread safety: one caller at a
/// time, but for leave(), is_leaving() and ends_this_process(), which any thread may call.
class SharedEnd {
 public:
  using Tell = std::function<void(const std::string& text)>;

  /// As MeetingOptions has them.
  SharedEnd(std::chrono::milliseconds grace, Tell end, Tell show)
      : grace_(grace), end_(std::move(end)), show_(std::move(show)) {}

  /// Somebody is gone who has not said that it ends: this process ends in a while. The first one counts.
  void lose(const std::string& why);
  [[nodiscard]] bool has_lost() const { return !lost_.empty(); }
  /// Who is gone, and why; empty: nobody.
  [[nodiscard]] const std::string& lost() const { return lost_; }
  /// Somebody is lost, and the while is over.
  [[nodiscard]] bool is_due() const { return has_lost() && time_.now() >= ends_at_; }

  /// This process ends, with all others.
  void end(const std::string& why) { end_this_process(" with the others of its job", why); }
  /// This process ends, and no other one.
  void end_alone(const std::string& why) { end_this_process(", and its job goes on without it", why); }
  /// From now on the end of others does not end this process.
  void stop_watching() { is_watching_ = false; }
  [[nodiscard]] bool is_watching() const { return is_watching_; }
  /// To be called again and again. Ends this process by force if it was asked to end, and has not for long.
  void look(transport::TimePoint now);
  /// It was asked to end, by SIGTERM.
  [[nodiscard]] bool ends_this_process() const { return ends_this_process_; }

  /// This process leaves on purpose.
  void leave() { is_leaving_ = true; }
  [[nodiscard]] bool is_leaving() const { return is_leaving_; }

  /// Shows the user a line.
  void show(const std::string& line) const;

 private:
  void end_this_process(std::string_view how, const std::string& why);

  const std::chrono::milliseconds grace_;
  const Tell end_;
  const Tell show_;
  base::OwnTime time_{std::chrono::steady_clock::now()};
  bool is_watching_ = true;
  std::string lost_;
  base::OwnTime::TimePoint ends_at_{};  ///< if somebody is lost
  std::optional<base::OwnTime::TimePoint> dies_at_;
  std::atomic<bool> is_leaving_ = false;
  std::atomic<bool> ends_this_process_ = false;
};

}  // namespace verbena::job
