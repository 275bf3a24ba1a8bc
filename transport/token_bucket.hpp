// A bound on bytes per second: a bucket that fills at that rate up to a burst, and from which each transfer
// takes its bytes. A transfer may take more than the bucket holds; the bucket then has a debt, of at most one
// burst, and is empty until it has filled again.
//
// Thread safety: refill() and due() from one thread at a time; everything else from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "transport/transport.hpp"

namespace verbena::transport {

class TokenBucket {
 public:
  /// Full. REQUIRES: bytes_per_second > 0, burst_bytes > 0.
  TokenBucket(double bytes_per_second, std::int64_t burst_bytes, TimePoint now)
      : bytes_per_ns_(bytes_per_second / 1e9), burst_bytes_(burst_bytes), level_(burst_bytes), filled_(now) {}
  /// The burst is what a hundredth of a second brings.
  TokenBucket(double bytes_per_second, TimePoint now)
      : TokenBucket(bytes_per_second, static_cast<std::int64_t>(std::ceil(bytes_per_second / 100)), now) {}

  // Relaxed throughout: the level is a number of its own, and orders nothing else.
  [[nodiscard]] std::int64_t level() const { return level_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_empty() const { return level() <= 0; }
  /// Nobody has taken anything for a while.
  [[nodiscard]] bool is_full() const { return level() >= burst_bytes_; }
  [[nodiscard]] std::int64_t burst_bytes() const { return burst_bytes_; }
  void take(std::size_t bytes) {
    change([&](std::int64_t before) {
      return std::max(before - static_cast<std::int64_t>(bytes), -burst_bytes_);
    });
  }

  /// True if the bucket has ceased to be empty, or has become full.
  bool refill(TimePoint now) {
    const auto gained =
        static_cast<std::int64_t>(static_cast<double>((now - filled_).count()) * bytes_per_ns_);
    if (gained <= 0) return false;
    // A fraction of a byte counts next time.
    filled_ += Duration(static_cast<Duration::rep>(static_cast<double>(gained) / bytes_per_ns_));
    const auto [before, after] =
        change([&](std::int64_t level) { return std::min(level + gained, burst_bytes_); });
    return (before <= 0 && after > 0) || (before < burst_bytes_ && after == burst_bytes_);
  }

  /// When refill() will next return true; TimePoint::max() if it is full.
  [[nodiscard]] TimePoint due() const {
    const std::int64_t now = level();
    if (now >= burst_bytes_) return TimePoint::max();
    const std::int64_t wanted = now <= 0 ? 1 - now : burst_bytes_ - now;
    // Rounded up: else the caller would wait a second time for the rest of a byte.
    return filled_ +
           Duration(static_cast<Duration::rep>(std::ceil(static_cast<double>(wanted) / bytes_per_ns_)) + 1);
  }

 private:
  struct Change {
    std::int64_t before = 0;
    std::int64_t after = 0;
  };
  template <class NewLevel>
  Change change(NewLevel new_level) {
    Change change{.before = level()};
    do {
      change.after = new_level(change.before);
    } while (!level_.compare_exchange_weak(change.before, change.after, std::memory_order_relaxed));
    return change;
  }

  const double bytes_per_ns_;
  const std::int64_t burst_bytes_;
  std::atomic<std::int64_t> level_;
  TimePoint filled_;
};

}  // namespace verbena::transport
