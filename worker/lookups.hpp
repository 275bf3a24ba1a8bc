// What a worker has heard of rows and index segments that a lane has taken away, and when it may say so: the
// lane then uses their memory for others (server/gone_log.hpp). A lookup from afar finds a place with one
// read, and reads there with the next: until it has ended, it may come to places of which this worker has
// heard meanwhile that they are gone. What it reads there then is still right, for nothing has been changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace verbena::worker {

/// Of one lane of one server. Thread safety: none; belongs to its session.
class Lookups {
 public:
  /// How much had been heard when a lookup began.
  using Ticket = std::uint64_t;

  [[nodiscard]] Ticket begin() {
    if (running_.empty() || running_.back().heard != heard_) running_.push_back({.heard = heard_});
    ++running_.back().lookups;
    return heard_;
  }
  void end(Ticket ticket) {
    for (Running& running : running_) {
      if (running.heard == ticket) --running.lookups;
    }
    while (!running_.empty() && running_.front().lookups == 0) running_.pop_front();
  }
  /// Nothing has been heard since. What the lookup has found may be remembered.
  [[nodiscard]] bool is_newest(Ticket ticket) const { return ticket == heard_; }

  /// How much has been heard.
  [[nodiscard]] std::uint64_t heard() const { return heard_; }
  /// So much more is gone, and forgotten here.
  void hear(std::uint64_t more) { heard_ += more; }
  /// How much all lookups have known of that are under way.
  [[nodiscard]] std::uint64_t known_to_all() const {
    return running_.empty() ? heard_ : running_.front().heard;
  }
  /// The lane has been told that so much is known.
  void said(std::uint64_t known) { said_ = known; }
  [[nodiscard]] bool has_to_say() const { return known_to_all() > said_; }
  [[nodiscard]] bool has_said_all() const { return said_ == heard_; }

 private:
  struct Running {
    std::uint64_t heard = 0;
    std::size_t lookups = 0;  ///< that began then, and have not ended
  };
  std::uint64_t heard_ = 0;
  std::uint64_t said_ = 0;
  std::deque<Running> running_;  ///< the oldest first; few, since lookups are short
};

}  // namespace verbena::worker
