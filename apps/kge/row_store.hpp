// Where the rows live while they are trained: in local arrays for the plain loop, in two tables of the parameter
// server for a worker.
#pragma once

#include <hwy/aligned_allocator.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/conditions/slowdown.hpp"
#include "apps/kge/kernel.hpp"
#include "apps/kge/model.hpp"
#include "worker/table.hpp"

namespace verbena::apps::kge {

/// Mini-batches are requested one after the other, and opened and closed in that order; one may be requested while
/// the one before it is open, not more.
class RowStore {
 public:
  virtual ~RowStore() = default;
  /// Begins to bring the rows of a mini-batch, and makes rows of its ids.
  virtual void request(MiniBatch& batch) = 0;
  /// The rows of the mini-batch, to be trained in place until close().
  virtual absl::StatusOr<Rows> open() = 0;
  /// Adds what was trained since open().
  virtual absl::Status close() = 0;
  /// This worker has finished a clock. No mini-batch is requested or open.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see all that any worker has trained, until the next barrier.
  virtual absl::Status barrier() = 0;
  /// All parameters.
  virtual absl::Status read(Embeddings& embeddings) = 0;
};

class LocalRows final : public RowStore {
 public:
  LocalRows(const Shape& shape, const RowSource& entities, const RowSource& relations);
  void request(MiniBatch& /*batch*/) override {}
  absl::StatusOr<Rows> open() override { return Rows{entities_.get(), relations_.get()}; }
  absl::Status close() override { return absl::OkStatus(); }
  absl::Status clock() override { return absl::OkStatus(); }
  absl::Status barrier() override { return absl::OkStatus(); }
  absl::Status read(Embeddings& embeddings) override;

 private:
  Shape shape_;
  hwy::AlignedFreeUniquePtr<float[]> entities_;
  hwy::AlignedFreeUniquePtr<float[]> relations_;
};

/// The rows of one table that two mini-batches need: the one that is trained and the next.
class FetchedRows {
 public:
  explicit FetchedRows(Table<float>& table);

  void begin();  ///< what a mini-batch needs
  /// Its place among the rows, which is the same for the same key.
  std::uint32_t place_of(std::uint32_t key);
  /// Begins to pull them.
  void fetch();
  /// The rows of the mini-batch that began first, when they have come.
  absl::StatusOr<float*> open();
  /// Pushes what was added to them since.
  absl::Status close();

 private:
  /// A row that the mini-batch before has, too: as trained there, for the pull came before the push.
  struct HandedOver {
    std::uint32_t place;
    std::uint32_t place_before;
  };
  struct Frame {
    std::vector<std::uint32_t> places;  ///< by key, + 1; 0: not needed
    std::vector<Key> keys;
    std::vector<HandedOver> handed_over;
    hwy::AlignedFreeUniquePtr<float[]> values;
    std::size_t capacity = 0;     ///< of `values`, in rows
    std::vector<float> pulled;    ///< `values` as they came, then what was added
    std::optional<Pending> pull;  ///< begun, and not opened yet
  };

  Table<float>& table_;
  std::array<Frame, 2> frames_;
  std::size_t first_ = 0;  ///< the frame to be opened next, or that is open
  std::size_t begun_ = 0;  ///< frames in use, first_ first
};

/// Pulls the rows of a mini-batch while the one before it is trained; pushes the differences.
class TableRows final : public RowStore {
 public:
  /// What is done between open() and close() is what `slowdown` slows.
  TableRows(Session& session, const Shape& shape, Table<float>& entities, Table<float>& relations,
            Slowdown& slowdown)
      : session_(session),
        shape_(shape),
        entity_table_(entities),
        relation_table_(relations),
        entities_(entities),
        relations_(relations),
        slowdown_(slowdown) {}

  /// Pushes this worker's share of the first rows; all workers' are seen when it returns.
  absl::Status initialize(const RowSource& entities, const RowSource& relations);

  void request(MiniBatch& batch) override;
  absl::StatusOr<Rows> open() override;
  absl::Status close() override;
  absl::Status clock() override;
  absl::Status barrier() override { return session_.barrier(); }
  absl::Status read(Embeddings& embeddings) override;

 private:
  Session& session_;
  Shape shape_;
  Table<float>& entity_table_;
  Table<float>& relation_table_;
  FetchedRows entities_;
  FetchedRows relations_;
  Slowdown& slowdown_;
};

}  // namespace verbena::apps::kge
