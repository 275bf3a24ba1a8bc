// The clocks of all workers, in memory of server 0 that workers on its host share: each worker writes its own
// and reads the others'. So workers that wait for one another need no message and no server.
//
// A word for each worker, on a cache line of its own: 0 until the worker has mapped the board, which it does
// when it joins, then 1 + its clock. Only the worker writes it, and the server once the worker is gone.
// Whether a word is 0 never changes after the worker has joined. A worker that breaks these rules can make
// the others wait, or not wait.
//
// Thread safety: everything is thread-safe, in memory that processes share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace verbena::protocol {

class ClockBoard {
 public:
  static constexpr std::size_t bytes_for(std::uint32_t workers) { return workers * kCacheLine; }

  /// A board that cannot be reached.
  ClockBoard() = default;
  /// `bytes`: bytes_for(workers), aligned to 8, zeros at first; they must outlive the board.
  ClockBoard(std::byte* bytes, std::uint32_t workers) : bytes_(bytes), workers_(workers) {}
  [[nodiscard]] bool is_mapped() const { return bytes_ != nullptr; }

  // REQUIRES, of all below: is_mapped().

  /// The worker uses the board, and has finished all clocks below `clock`. Release: who sees it also sees
  /// what the worker has written before.
  void tell(std::uint32_t worker, std::int64_t clock) const { store(worker, clock + 1); }
  /// Nobody waits for the worker any more. REQUIRES: it is gone.
  void leave(std::uint32_t worker) const {
    if (word(worker).load(std::memory_order_relaxed) != 0)
      store(worker, std::numeric_limits<std::int64_t>::max());
  }
  [[nodiscard]] bool is_used_by_all() const { return all_at(0); }
  /// All workers use it, and have finished all clocks below `clock`. Acquire, see tell().
  [[nodiscard]] bool all_at(std::int64_t clock) const {
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      if (word(worker).load(std::memory_order_acquire) <= clock) return false;
    }
    return true;
  }
  /// For messages: the worker that is farthest behind, and its clock.
  struct Place {
    std::uint32_t worker = 0;
    std::int64_t clock = 0;
  };
  [[nodiscard]] Place slowest() const {
    Place slowest{0, std::numeric_limits<std::int64_t>::max()};
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      const std::int64_t told = std::max<std::int64_t>(word(worker).load(std::memory_order_relaxed), 1);
      if (told <= slowest.clock) slowest = {worker, told - 1};
    }
    return slowest;
  }

 private:
  static constexpr std::size_t kCacheLine = 64;
  [[nodiscard]] std::atomic_ref<std::int64_t> word(std::uint32_t worker) const {
    return std::atomic_ref(*reinterpret_cast<std::int64_t*>(bytes_ + worker * kCacheLine));
  }
  void store(std::uint32_t worker, std::int64_t value) const {
    word(worker).store(value, std::memory_order_release);
  }

  std::byte* bytes_ = nullptr;
  std::uint32_t workers_ = 0;
};

}  // namespace verbena::protocol
