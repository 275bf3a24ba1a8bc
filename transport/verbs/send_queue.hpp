// What was posted to a queue pair's send queue and has not completed.
//
// Most requests are posted unsignaled: the device reports none of them, and their places become free when a
// later signaled one is reported. So at least one request in every quarter of the queue is signaled, even if
// the caller did not ask for that: a full queue without a signaled request would stay full.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

namespace verbena::transport::verbs {

class SendQueue {
 public:
  /// What one work request of the device stands for.
  struct Entry {
    std::uint64_t id = 0;
    bool report_success = false;
    bool report_failure = false;
    bool continued = false;  ///< the next entry belongs to the same request
    bool buffered = false;   ///< holds the next send buffer until it is done
    bool read = false;
    bool bind = false;
    bool signaled = false;
  };

  /// REQUIRES: a power of two ≥ 8.
  explicit SendQueue(std::uint32_t depth) : entries_(depth) {
    assert(depth >= 8 && (depth & (depth - 1)) == 0);
  }

  [[nodiscard]] std::uint32_t depth() const { return static_cast<std::uint32_t>(entries_.size()); }
  [[nodiscard]] std::uint32_t outstanding() const { return tail_ - head_; }
  [[nodiscard]] std::uint32_t room() const { return depth() - outstanding(); }
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  // How many of the outstanding entries are such.
  [[nodiscard]] std::uint32_t reads() const { return reads_; }
  [[nodiscard]] std::uint32_t binds() const { return binds_; }
  /// Is anything outstanding that the device will report if it succeeds?
  [[nodiscard]] bool awaits_report() const { return unsignaled_ < outstanding(); }
  [[nodiscard]] bool must_signal() const { return unsignaled_ + 1 >= depth() / 4; }

  /// Returns the entry's number, by which it completes. REQUIRES: room() > 0.
  std::uint32_t push(const Entry& entry) {
    assert(room() > 0);
    unsignaled_ = entry.signaled ? 0 : unsignaled_ + 1;
    assert(unsignaled_ <= depth() / 2);
    if (entry.read) ++reads_;
    if (entry.bind) ++binds_;
    entries_[tail_ & mask()] = entry;
    return tail_++ & mask();
  }
  /// Takes back what the device did not accept. The queue takes nothing more after that.
  void drop_last(std::uint32_t count) {
    assert(count <= outstanding());
    for (; count > 0; --count) forget(entries_[--tail_ & mask()]);
  }

  [[nodiscard]] bool contains(std::uint32_t number) const {
    return number < depth() && ((number - head_) & mask()) < outstanding();
  }
  /// The oldest entry. REQUIRES: !empty().
  [[nodiscard]] std::uint32_t front_number() const { return head_ & mask(); }
  [[nodiscard]] Entry& front() { return entries_[front_number()]; }
  void pop() {
    assert(!empty());
    forget(front());
    ++head_;
    if (unsignaled_ > outstanding()) unsignaled_ = outstanding();
  }

 private:
  [[nodiscard]] std::uint32_t mask() const { return depth() - 1; }
  void forget(const Entry& entry) {
    if (entry.read) --reads_;
    if (entry.bind) --binds_;
  }

  std::vector<Entry> entries_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t unsignaled_ = 0;  ///< entries since the last signaled one
  std::uint32_t reads_ = 0;
  std::uint32_t binds_ = 0;
};

}  // namespace verbena::transport::verbs
