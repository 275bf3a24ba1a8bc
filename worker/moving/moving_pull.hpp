// A pull of those rows of a dynamic table that are not at hand; and the reading of rows into replicas.
#pragma once

#include <optional>
#include <vector>

#include "consistency/rules.hpp"
#include "worker/moving/moving_operation.hpp"

namespace verbena::worker {

class MovingPull final : public MovingOperation {
 public:
  /// A refresh of replicas goes on for at most this many clocks.
  static constexpr consistency::Clock kMostClocksRefreshing = 5;

  /// For a user: pulls `keys` from the index `next` on into `out`, which has room for all keys.
  MovingPull(MovingRows& rows, const Keys& keys, std::size_t next, std::byte* out);
  /// A refresh: reads into the rows' replicas. Nobody waits for it except a barrier, and clocks when it is
  /// overdue.
  MovingPull(MovingRows& rows, std::vector<Key> replicas);

  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone != Milestone::kClock || !is_refresh_;
  }
  [[nodiscard]] bool is_overdue(consistency::Clock clock) const override {
    return is_refresh_ && begun_at_ <= clock - kMostClocksRefreshing;
  }

 private:
  /// A slot that is being read over the network.
  struct Reading {
    std::size_t index = 0;  ///< in `keys`
    std::uint32_t node = 0;
    std::uint64_t epoch = 0;  ///< at which the node was known to own the row, before it was read
    const std::byte* slot = nullptr;
  };

  bool do_own() override;
  void begin_reads();
  /// Reads the row on this host, or begins to read it over the network. Returns false if no room is left for
  /// what is read.
  bool begin_read(std::size_t index, std::vector<std::size_t>& left);
  bool begin_network_read(std::size_t index);
  void end_reads();
  /// The destination of a row that is read in place.
  [[nodiscard]] std::byte* out_of(std::size_t index);
  void on_read(std::size_t index, const std::byte* row, std::uint64_t& counter);

  std::byte* const out_ = nullptr;
  std::vector<std::size_t> todo_;    ///< indices in `keys`, of rows neither done nor being read
  std::vector<std::size_t> coming_;  ///< indices of rows that wait for a move of this session
  std::vector<Reading> readings_;
  std::optional<LocalSpan> staging_;
  std::size_t staged_bytes_ = 0;  ///< of `staging_`, in use

  const bool is_refresh_ = false;
  std::vector<std::byte> refreshed_;       ///< where a refresh puts a row of this node, one at a time
  const consistency::Clock begun_at_ = 0;  ///< the session's clock
  const consistency::Clock begun_after_barrier_ = 0;  ///< the clock of the session's last barrier
};

}  // namespace verbena::worker
