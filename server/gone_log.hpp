// What a lane has taken away from its sparse tables, rows and segments of their indexes, and which workers
// know it: the memory may be used again once no worker can come to it any more by what it has read before
// (epoch-based reclamation, with the position in this log for an epoch).
//
// Each worker is told of each entry, in the lane's order. It forgets what it knows of it, and says how much
// it has heard when all lookups have ended that it began before that (worker/lookups.hpp). A worker that has
// left, or is gone, has heard all. One that does not answer keeps entries here for as long.
//
// Thread safety: belongs to its lane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "server/image_bytes.hpp"
#include <verbena/keys.hpp>

namespace verbena::server {

class GoneLog {
 public:
  struct Entry {
    std::uint32_t table = 0;
    Key key = kNoKey;          ///< of a row; kNoKey: a segment
    std::uint64_t number = 0;  ///< of the row or segment
  };

  explicit GoneLog(std::uint32_t workers) : told_(workers, 0), heard_(workers, 0), begun_(workers, 0) {}

  void add(const Entry& entry) { entries_.push_back(entry); }
  [[nodiscard]] std::uint64_t end() const { return begin_ + entries_.size(); }

  /// How many entries the worker has not been told of.
  [[nodiscard]] std::uint64_t left_to_tell(std::uint32_t worker) const {
    return told_[worker] < end() ? end() - told_[worker] : 0;
  }
  /// The first of these. REQUIRES: there are some.
  [[nodiscard]] const Entry& next_to_tell(std::uint32_t worker) const {
    return entries_[static_cast<std::size_t>(told_[worker] - begin_)];
  }
  /// It has been told of the next one.
  void told(std::uint32_t worker) { ++told_[worker]; }

  /// The worker says that it has heard all entries before the position. It cannot have heard more than it was
  /// told.
  void hear(std::uint32_t worker, std::uint64_t position) {
    heard_[worker] = std::max(heard_[worker], std::min(begun_[worker] + position, told_[worker]));
  }
  /// Another copy of this log has told the worker of all entries before the position.
  void told_elsewhere(std::uint32_t worker, std::uint64_t position) {
    told_[worker] = std::max(told_[worker], std::min(begun_[worker] + position, end()));
  }
  /// The worker has forgotten all that it has ever read: from now on it counts from here.
  void begin_anew(std::uint32_t worker) {
    if (told_[worker] == UINT64_MAX) return;
    begun_[worker] = told_[worker] = heard_[worker] = end();
  }
  /// The worker is not there any more.
  void leave(std::uint32_t worker) { told_[worker] = heard_[worker] = UINT64_MAX; }

  /// Calls free(entry) for each entry that all have heard of, and drops it.
  template <class Free>
  void release(const Free& free) {
    if (entries_.empty()) return;
    const std::uint64_t heard = std::min(end(), *std::min_element(heard_.begin(), heard_.end()));
    for (; begin_ < heard; ++begin_) {
      free(entries_.front());
      entries_.pop_front();
    }
  }

  // For images (image.hpp): what a copy knows that has told nobody.
  void write_image(ImageWriter& out) const {
    out.put(begin_);
    out.put_all(std::vector<Entry>(entries_.begin(), entries_.end()));
    for (const std::vector<std::uint64_t>* const positions : {&heard_, &begun_}) out.put_all(*positions);
  }
  void read_image(ImageReader& in) {
    begin_ = in.get<std::uint64_t>();
    const std::vector<Entry> entries = in.get_all<Entry>();
    entries_.assign(entries.begin(), entries.end());
    for (std::vector<std::uint64_t>* const positions : {&heard_, &begun_}) {
      const std::size_t workers = positions->size();
      *positions = in.get_all<std::uint64_t>();
      positions->resize(workers);
    }
    told_ = heard_;
  }

 private:
  std::deque<Entry> entries_;
  std::uint64_t begin_ = 0;  ///< the position of the first one
  // By worker; positions in the log.
  std::vector<std::uint64_t> told_;
  std::vector<std::uint64_t> heard_;
  std::vector<std::uint64_t> begun_;  ///< where it begins to count
};

}  // namespace verbena::server
