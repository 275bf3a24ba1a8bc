// Those who have come to rank 0 and have no seat (yet): strangers, refused ones, and those who wait for the
// seat of another one. Their number, what they say and their time are bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/meeting/wire.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// In addition to the job's own, so many may wait.
inline constexpr std::size_t kMostNewcomers = 64;

struct Newcomer {
  Wire wire;
  transport::TimePoint deadline;  ///< of rank 0's own time, as all that follows
  bool is_refused = false;
  std::optional<std::uint32_t> waits_for = std::nullopt;  ///< until that rank's seat is free
  bool has_looked = false;                                ///< it has asked whether this is whom it looks for
  std::vector<std::string> lines = {};                    ///< that it has said and nobody has considered

  /// It is told why it cannot be of the job.
  void refuse(const std::string& why, transport::TimePoint now);
  /// It is told that, and not heard any more.
  void send_away(const std::string& words, transport::TimePoint now);
};

/// Thread safety: none.
class Newcomers {
 public:
  /// `most`: so many may be here; the one that has come first gives way.
  void take_in(std::unique_ptr<transport::Connection> connection, std::size_t most, transport::TimePoint now);
  void add(Newcomer newcomer) { newcomers_.push_back(std::move(newcomer)); }
  /// One of them may have said something. `introduce`, which is called when it has said who it is, and waits
  /// for nothing, returns whether it is no newcomer any more. Who says more than there can be to say goes.
  void hear(const transport::Event& event, const std::function<bool(Newcomer& newcomer)>& introduce);
  /// False: that is nobody here.
  bool forget(const transport::Connection* connection);
  /// Those for whom this is true are no newcomers any more.
  void remove_if(const std::function<bool(Newcomer& newcomer)>& has_seat);
  /// Those whose time is over go. Who has waited for a seat is refused before, for that reason.
  void on_time(transport::TimePoint now, const std::function<std::string(std::uint32_t rank)>& why_refused);
  /// True: nothing is left to say.
  [[nodiscard]] bool try_to_say_all();

 private:
  [[nodiscard]] std::deque<Newcomer>::iterator find(const transport::Connection* connection);

  std::deque<Newcomer> newcomers_;
};

}  // namespace verbena::job
