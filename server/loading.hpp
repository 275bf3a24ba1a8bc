// A server's side of resuming: rows of a table that is opened come from a checkpoint, before any worker is
// told that the table is open. Lanes load their parts, a chunk a poll; the transport's thread loads rows of
// dynamic tables.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/newest_rows.hpp"
#include "checkpoint/reader.hpp"
#include "protocol/open_table.hpp"
#include "protocol/saved_table.hpp"
#include "server/fixed_shard.hpp"
#include "server/moving_shard.hpp"

namespace verbena::server {

/// What is known of a table in a checkpoint, and how far it is loaded. Lanes and the server share it. Thread
/// safety: all calls may come from any thread.
class TableLoad {
 public:
  /// `parts`: how many load, each its own range. INVALID_ARGUMENT: the checkpoint has no such table, or one
  /// that differs; the message names it.
  static absl::StatusOr<std::shared_ptr<TableLoad>> create(std::shared_ptr<const checkpoint::Reader> reader,
                                                           const protocol::OpenTable& open,
                                                           std::uint32_t parts);

  [[nodiscard]] const checkpoint::Reader& reader() const { return *reader_; }
  /// The table's number in the checkpoint.
  [[nodiscard]] std::uint32_t number() const { return number_; }
  /// As it was opened when it was saved.
  [[nodiscard]] const protocol::OpenTable& saved() const { return saved_; }

  /// One of the parts is loaded, or cannot be.
  void part_is_done(const absl::Status& status);
  [[nodiscard]] bool is_done() const { return left_.load(std::memory_order_acquire) == 0; }
  /// The first error. REQUIRES: is_done()
  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  TableLoad(std::shared_ptr<const checkpoint::Reader> reader, std::uint32_t number, protocol::OpenTable saved,
            std::uint32_t parts)
      : reader_(std::move(reader)), number_(number), saved_(std::move(saved)), left_(parts) {}

  const std::shared_ptr<const checkpoint::Reader> reader_;
  const std::uint32_t number_;
  const protocol::OpenTable saved_;
  std::mutex mutex_;
  absl::Status status_;  ///< constant once is_done()
  std::atomic<std::uint32_t> left_;
};

/// Loads what one lane has of a table. Thread safety: belongs to the lane.
class LaneLoad {
 public:
  LaneLoad(std::shared_ptr<TableLoad> load, const FixedShard& shard, const LanePart& part);

  /// Takes the next chunk. True: it was the last one, and the load knows.
  bool step(std::uint32_t now);

 private:
  absl::StatusOr<bool> take_chunk(std::uint32_t now);
  [[nodiscard]] bool is_ours(Key key) const;
  absl::Status take(const checkpoint::Rows& rows, std::uint32_t now);
  absl::Status take_sparse(Key key, std::span<const std::byte> values, std::span<const std::byte> state,
                           std::span<const std::byte> use, std::uint32_t now);
  absl::Status take_counts();

  const std::shared_ptr<TableLoad> load_;
  const FixedShard& shard_;
  const LanePart part_;
  checkpoint::RowReader rows_;
  checkpoint::NewestRows newest_;
};

/// Loads the rows of a dynamic table that have their home here. Thread safety: the transport's thread.
class MovingLoad {
 public:
  MovingLoad(std::shared_ptr<TableLoad> load, MovingShard& shard);
  /// As LaneLoad::step().
  bool step();

 private:
  absl::StatusOr<bool> take_chunk();

  const std::shared_ptr<TableLoad> load_;
  MovingShard& shard_;
  checkpoint::RowReader rows_;
  checkpoint::NewestRows newest_;
};

}  // namespace verbena::server
