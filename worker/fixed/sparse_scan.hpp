// Reads the rows of a sparse table where they lie, one piece of a part after the other, without asking for
// keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/row.hpp"
#include "worker/fixed/part.hpp"
#include "worker/local_memory.hpp"
#include "worker/operation.hpp"

namespace verbena::worker {

class SparseTable;

/// Reads one piece. When it has ended, and all is well, its rows are there.
class SparseScan final : public Operation {
 public:
  /// From row `first` on; as many as it may, but some if there are any before `end`. nullopt: the end of the
  /// part, as it is when the piece is read.
  SparseScan(SparseTable& table, Part& part, std::uint64_t first, std::optional<std::uint64_t> end);
  ~SparseScan() override;

  [[nodiscard]] bool must_end_before(Milestone /*milestone*/) const override { return false; }
  [[nodiscard]] std::string other_wait() const override;
  void on_lost_server(const ServerLink& link) override { begins_anew_ |= part_.link == &link; }

  /// How many rows it has read; 0: the part has no more.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t end() const { return *end_; }
  /// Row `i` of them: its key, then its values, which its lane may be changing. REQUIRES: i < count()
  [[nodiscard]] const std::byte* row(std::uint64_t i) const { return rows_ + i * part_.sparse->row_bytes(); }

 private:
  bool advance() override;
  [[nodiscard]] bool may_begin() const;
  bool take_staging();
  bool find_end();
  bool find_rows();
  bool read_again();

  SparseTable& table_;
  Part& part_;
  const std::uint64_t first_;
  bool has_begun_ = false;
  bool begins_anew_ = false;          ///< some reads have brought nothing
  std::optional<LocalSpan> staging_;  ///< from afar
  bool is_end_read_ = false;          ///< from afar: it is in `staging_` when the reads have ended
  bool is_end_given_ = false;
  std::optional<std::uint64_t> end_;  ///< how many rows the part has
  std::uint64_t count_ = 0;
  const std::byte* rows_ = nullptr;  ///< mapped, or in `staging_` when the reads have ended
  // Of a table that loses rows, from afar:
  std::optional<Lookups::Ticket> ticket_;  ///< while it reads
  std::byte* again_ = nullptr;             ///< where they are read for the second time, once that has begun
};

}  // namespace verbena::worker
