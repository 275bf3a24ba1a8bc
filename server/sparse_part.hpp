// One lane's part of a sparse table: its rows, the index that says where each key's row is, and how both get
// more memory.
//
// Thread safety: belongs to its lane. Workers read index and rows at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/prefetch.hpp"
#include "protocol/admission.hpp"
#include "protocol/initial_values.hpp"
#include "protocol/placement.hpp"
#include "protocol/row.hpp"
#include "protocol/sparse_index.hpp"
#include "protocol/sparse_memory.hpp"
#include "server/region_desk.hpp"
#include "server/sparse_index.hpp"
#include "server/stored_rows.hpp"
#include <verbena/keys.hpp>
#include <verbena/value_type.hpp>

namespace verbena::server {

class SparsePart final : private SparseIndex::Memory {
 public:
  struct Shape {
    SparseShard* shard = nullptr;
    std::uint32_t lane = 0;
    protocol::HashedKeys keys;
    ValueType type = ValueType::kFloat;
    std::uint32_t width = 0;
    protocol::InitialValues initial;
    protocol::AdmissionRule admission;
    std::uint64_t expected_rows = 0;  ///< of the whole table
    StoredRows::Strides strides;
    std::uint32_t rows_shift = 0;      ///< rows of a region, as a power of two
    std::uint32_t segments_shift = 0;  ///< segments of a region, as a power of two
    std::uint32_t keys_of_segment = 0;
  };

  /// `desk` outlives the part.
  SparsePart(const Shape& shape, RegionDesk& desk);
  ~SparsePart() override;
  SparsePart(const SparsePart&) = delete;
  SparsePart& operator=(const SparsePart&) = delete;
  /// Gets the first regions, in the transport's thread. RESOURCE_EXHAUSTED.
  absl::Status start();

  [[nodiscard]] const protocol::HashedKeys& keys() const { return shape_.keys; }
  [[nodiscard]] StoredRows& rows() { return rows_; }
  /// Those with smaller numbers are there.
  [[nodiscard]] std::uint64_t rows_made() const { return next_row_; }
  /// As the row has it.
  [[nodiscard]] Key key_of(protocol::Row row) const override;

  [[nodiscard]] std::optional<protocol::Row> find(const protocol::KeyHash& hash, Key key) const;
  /// There is another push to a key without a row; true: it is to get one.
  [[nodiscard]] bool admits(Key key, const protocol::PushOrigin& origin) {
    return admission_.admits(key, origin);
  }
  /// A row for a key that has none, with the initial values. RESOURCE_EXHAUSTED; CANCELLED: the server ends.
  absl::StatusOr<protocol::Row> add(const protocol::KeyHash& hash, Key key);

  // For loops over keys that fetch what they will need into the processor's cache.
  /// A row that may be the key's, and probably is.
  [[nodiscard]] std::optional<protocol::Row> probable_row(const protocol::KeyHash& hash) const {
    return index_->probable_row(hash);
  }
  void prefetch(const protocol::KeyHash& hash) const { index_->prefetch(hash); }
  /// The row, its key included, will be used soon.
  void prefetch(protocol::Row row) const {
    base::prefetch_to_write(rows_.values(row) - sizeof(Key));
    rows_.prefetch(row);
  }

 private:
  // SparseIndex::Memory
  absl::StatusOr<std::uint32_t> add_segment() override;
  [[nodiscard]] protocol::IndexSegment& segment(std::uint32_t number) override {
    return segments_[number >> shape_.segments_shift][number & ((1U << shape_.segments_shift) - 1)];
  }
  /// Kept for good: readers may come to it at any time.
  void retire_segment(std::uint32_t /*number*/) override {}
  absl::StatusOr<std::span<std::uint64_t>> add_directory(std::size_t entries) override;
  void publish_directory() override;

  /// A region that is ordered before it is needed.
  struct Spare {
    RegionDesk::Order order;
    bool is_ordered = false;
  };
  void order(Spare& spare, protocol::RegionKind kind, std::uint32_t number);
  absl::StatusOr<RegionDesk::Order*> take(Spare& spare, protocol::RegionKind kind, std::uint32_t number);

  const Shape shape_;
  RegionDesk& desk_;
  StoredRows rows_;
  protocol::Admission admission_;
  std::uint64_t next_row_ = 0;
  std::uint32_t row_regions_ = 0;
  std::vector<protocol::IndexSegment*> segments_;  ///< by region
  std::uint32_t next_segment_ = 0;
  std::uint64_t* root_ = nullptr;
  std::uint32_t depth_ = 0;  ///< of the newest directory
  bool is_starting_ = true;  ///< in the transport's thread
  Spare spare_rows_;
  Spare spare_segments_;
  Spare directory_;
  std::optional<SparseIndex> index_;
};

}  // namespace verbena::server
