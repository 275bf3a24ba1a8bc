// One lane's part of a sparse table: its rows, the index that says where each key's row is, and how both get
// more memory.
//
// Thread safety: belongs to its lane. Workers read index and rows at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/prefetch.hpp"
#include "protocol/admission.hpp"
#include "protocol/eviction.hpp"
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

class ImageCopier;
class ImageReader;
class ImageWriter;

/// What a sparse table has that a dense one has not: which rows there are, and what they begin with.
struct LifeOfRows {
  protocol::InitialValues initial;
  protocol::AdmissionRule admission;
  protocol::EvictionRule eviction;
};

class SparsePart final : private SparseIndex::Memory {
 public:
  struct Shape {
    SparseShard* shard = nullptr;
    std::uint32_t lane = 0;
    protocol::HashedKeys keys;
    ValueType type = ValueType::kFloat;
    std::uint32_t width = 0;
    LifeOfRows life;
    std::uint64_t expected_rows = 0;       ///< of the whole table
    std::uint64_t most_rows = UINT64_MAX;  ///< of this part, with those that are gone and not free yet
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
  /// As the row has it; kNoKey: it is free, or gone.
  [[nodiscard]] Key key_of(protocol::Row row) const override {
    return *key_word(row);  // readers may be reading it; only the lane writes it
  }

  [[nodiscard]] std::optional<protocol::Row> find(const protocol::KeyHash& hash, Key key) const;
  /// There is another push to a key without a row; true: it is to get one.
  [[nodiscard]] bool admits(Key key, const protocol::PushOrigin& origin) {
    return admission_.admits(key, origin);
  }
  /// What the admission has counted, for a checkpoint, and back (protocol::Admission).
  [[nodiscard]] std::vector<std::byte> admission_counts() const { return admission_.save(); }
  absl::Status load_admission_counts(std::span<const std::byte> saved) {
    return admission_.load(saved, keys().parts());
  }
  /// A row for a key that has none, with the initial values. RESOURCE_EXHAUSTED; CANCELLED: the server ends.
  /// REQUIRES: has_room(). `now`: the lane's min clock.
  absl::StatusOr<protocol::Row> add(const protocol::KeyHash& hash, Key key, std::uint32_t now);
  /// There may be another row.
  [[nodiscard]] bool has_room() const {
    return keys_in_use() < most_keys_ && (!free_rows_.empty() || next_row_ < shape_.most_rows);
  }
  /// A push to a key without a row was dropped, since there is no room.
  void count_refused() { ++refused_; }

  // ---- rows that go. A row that is gone is free when no worker can come to it any more; the same goes for
  // segments of the index.
  [[nodiscard]] const protocol::EvictionRule& eviction() const { return shape_.life.eviction; }
  [[nodiscard]] std::uint64_t keys_in_use() const { return index_->keys(); }
  [[nodiscard]] std::uint64_t most_keys() const { return most_keys_; }
  [[nodiscard]] bool is_limited() const { return shape_.most_rows != UINT64_MAX; }
  /// So many rows are gone and not free yet that no more may go.
  [[nodiscard]] bool has_too_many_gone() const;
  /// Of the row's values.
  [[nodiscard]] double norm(protocol::Row row) const;
  /// Takes the row away from its key, which it returns. What it holds stays, since workers may be reading it.
  Key evict(protocol::Row row);
  /// The key of a row that is gone and not free; kNoKey: it is not.
  [[nodiscard]] Key former_key(protocol::Row row) const {
    const auto found = gone_rows_.find(index_of(row));
    return found == gone_rows_.end() ? kNoKey : found->second;
  }
  /// Of rows, whether keys have them or not, of all directories there have been, and of all segments.
  [[nodiscard]] TableMemory memory() const;
  void free_row(protocol::Row row);
  void free_segment(std::uint32_t number) { free_segments_.push_back(number); }
  /// Segments that are not used since the last call.
  [[nodiscard]] std::vector<std::uint32_t> take_retired() { return std::exchange(retired_segments_, {}); }

  // ---- images (image.hpp)
  /// All but the memory that add_memory() lists.
  void write_image(ImageWriter& out) const;
  /// Becomes the part that has written it, but for that memory, of which it gets as much. REQUIRES: it has no
  /// keys; the transport's thread. INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
  absl::Status read_image(ImageReader& in);
  /// The index, and rows that are there.
  void add_memory(std::vector<std::span<std::byte>>& extents) const;
  /// What the part is about to change is copied before; nullptr: it need not be. Values of rows that have
  /// keys are the lane's affair.
  void copy_before_changes(ImageCopier* copier);

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
  absl::StatusOr<NewSegment> add_segment() override;
  void retire_segment(std::uint32_t number) override { retired_segments_.push_back(number); }
  void before_change(const protocol::IndexSegment& segment) override {
    before_change(&segment, sizeof segment);
  }
  absl::StatusOr<std::span<std::uint64_t>> add_directory(std::size_t entries) override;
  void publish_directory() override;
  void prefetch_key(protocol::Row row) const override { base::prefetch_to_read(key_word(row)); }

  /// A region that is ordered before it is needed.
  struct Spare {
    RegionDesk::Order order;
    bool is_ordered = false;
  };
  void order(Spare& spare, protocol::RegionKind kind, std::uint32_t number);
  absl::StatusOr<protocol::Row> add_row(const protocol::KeyHash& hash, Key key, std::uint32_t now);
  absl::StatusOr<RegionDesk::Order*> take(Spare& spare, protocol::RegionKind kind, std::uint32_t number);
  /// A row that no key has, and no worker reads, unless it scans all of them.
  absl::StatusOr<protocol::Row> take_row();
  [[nodiscard]] std::uint64_t* key_word(protocol::Row row) const {
    return reinterpret_cast<std::uint64_t*>(rows_.values(row) - sizeof(Key));
  }
  absl::Status add_row_region();
  absl::Status add_segment_region();
  [[nodiscard]] protocol::IndexSegment* segment(std::uint32_t number) const {
    return segments_[number >> shape_.segments_shift] + (number & ((1U << shape_.segments_shift) - 1));
  }
  void clear_books(protocol::Row row) const;
  void before_change(const void* at, std::size_t bytes) const;
  void before_change_of(protocol::Row row) const;

  const Shape shape_;
  RegionDesk& desk_;
  StoredRows rows_;
  protocol::Admission admission_;
  const std::uint64_t most_keys_;
  std::uint64_t refused_ = 0;  ///< pushes to keys that got no row, since there was no room
  std::uint64_t next_row_ = 0;
  std::vector<protocol::Row> free_rows_;
  absl::flat_hash_map<std::uint64_t, Key> gone_rows_;  ///< those that are not free yet
  std::uint32_t row_regions_ = 0;
  std::vector<protocol::IndexSegment*> segments_;  ///< by region
  std::uint32_t next_segment_ = 0;
  std::vector<std::uint32_t> free_segments_;
  std::vector<std::uint32_t> retired_segments_;
  std::uint64_t* root_ = nullptr;
  std::uint32_t depth_ = 0;  ///< of the newest directory
  bool is_starting_ = true;  ///< in the transport's thread
  Spare spare_rows_;
  Spare spare_segments_;
  Spare directory_;
  std::optional<SparseIndex> index_;
  ImageCopier* copier_ = nullptr;
};

}  // namespace verbena::server
