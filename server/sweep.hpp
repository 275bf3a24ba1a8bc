// A sweep over the rows of one lane's part of a sparse table, which finds those that are to be taken away
// (protocol/eviction.hpp), a piece at a time.
//
// Thread safety: belongs to the part's lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocol/eviction.hpp"
#include "protocol/row.hpp"
#include "server/sparse_part.hpp"
#include <verbena/value_type.hpp>

namespace verbena::server {

class Sweep {
 public:
  /// `now`: the lane's min clock, by which all rows are judged, whenever they are looked at. `part` outlives
  /// the sweep.
  Sweep(SparsePart& part, std::uint32_t now);

  /// Looks at the next rows, at most `most`, and calls evict(row) for each that is to go. True: it has seen
  /// all.
  template <class Evict>
  bool step(std::uint64_t most, const Evict& evict) {
    const std::uint64_t end = std::min(end_, next_ + most);
    for (; next_ < end; ++next_) {
      const protocol::Row row{next_};
      if (!is_due(row)) continue;
      evict(row);
      if (wanted_ && --*wanted_ == 0) next_ = end_ - 1;
    }
    return next_ >= end_;
  }

 private:
  [[nodiscard]] bool is_due(protocol::Row row) const;
  void choose_oldest();

  SparsePart& part_;
  const std::uint32_t now_;
  std::uint64_t next_ = 0;
  std::uint64_t end_ = 0;  ///< rows that are made later are new
  // With lru:
  std::optional<std::uint64_t> wanted_;  ///< how many rows are to go
  std::uint32_t oldest_ = 0;             ///< of these, nobody has pushed to one since
};

}  // namespace verbena::server
