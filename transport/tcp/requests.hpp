// The requests of a connection that have been posted and not reported as completed.
//
// Requests complete in the order of posting: a write or message when the kernel has all of it, a read when
// all of its answers are here. A request that was not signaled is remembered, even though it has completed,
// until a later one is reported or its place is needed: the peer may still refuse it.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

namespace verbena::transport::tcp {

/// What the kernel has.
struct Sent {
  std::uint64_t first_stream = 0;  ///< up to there
  std::uint64_t payloads = 0;      ///< of those that travel elsewhere, so many
};

struct Request {
  std::uint64_t id = 0;
  bool signaled = false;
  bool is_read = false;
  std::uint32_t last_frame = 0;  ///< the number of its last request frame
  std::uint64_t end = 0;         ///< of a write or message: where it ends in the first stream
  std::uint64_t payloads = 0;    ///< and how many payloads end elsewhere with it

  // Of a read, which is asked for in frames of a bounded length:
  std::span<std::byte> local = {};
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  std::size_t asked_bytes = 0;
  bool all_asked = false;
  std::size_t awaited_answers = 0;
  std::size_t answered_bytes = 0;

  [[nodiscard]] bool is_complete(const Sent& sent) const {
    return is_read ? all_asked && awaited_answers == 0
                   : end <= sent.first_stream && payloads <= sent.payloads;
  }
};

class Requests {
 public:
  explicit Requests(std::size_t depth) : depth_(depth) {}

  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] Request& last() { return all_.back(); }
  void add(const Request& request) { all_.push_back(request); }

  /// Whether there is room for one more, if need be by forgetting a completed one.
  [[nodiscard]] bool make_room() {
    if (all_.size() < depth_) return true;
    if (completed_ == 0) return false;
    pop();
    return true;
  }

  /// Calls report(request) for each signaled one that has completed since the last call.
  template <class Report>
  void complete(const Sent& sent, Report report) {
    std::size_t reported = 0;
    while (completed_ < all_.size() && all_[completed_].is_complete(sent)) {
      if (all_[completed_++].signaled) reported = completed_;
    }
    for (; reported > 0; --reported) {
      if (all_.front().signaled) report(all_.front());
      pop();
    }
  }

  /// The read that the next answer belongs to; nullptr if no answer is awaited.
  [[nodiscard]] Request* awaited_read() {
    first_awaited_ = std::max(first_awaited_, front_number_ + completed_);
    for (; first_awaited_ - front_number_ < all_.size(); ++first_awaited_) {
      Request& request = all_[first_awaited_ - front_number_];
      if (request.awaited_answers > 0) return &request;
      // Its next frame is asked for only when answers have made room for that one's answer.
      if (request.is_read && !request.all_asked) return nullptr;
    }
    return nullptr;
  }

  /// Empties it, from the front: calls end(request, was_completed).
  template <class End>
  void end_all(End end) {
    while (!all_.empty()) {
      end(all_.front(), completed_ > 0);
      pop();
    }
  }

 private:
  void pop() {
    all_.pop_front();
    ++front_number_;
    if (completed_ > 0) --completed_;
  }

  const std::size_t depth_;
  std::deque<Request> all_;
  std::uint64_t front_number_ = 0;   ///< of the first in all_; they are counted from 0
  std::size_t completed_ = 0;        ///< so many at the front have completed and are not reported
  std::uint64_t first_awaited_ = 0;  ///< no read before it awaits an answer
};

}  // namespace verbena::transport::tcp
