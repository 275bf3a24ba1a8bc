// Where the item rows live while they are trained: in local arrays for the plain loop, in a table of the
// parameter server for a worker.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/conditions/slowdown.hpp"
#include "apps/mf/model.hpp"
#include "worker/table.hpp"

namespace verbena::apps::mf {

class ItemStore {
 public:
  virtual ~ItemStore() = default;
  /// Rows [first, last), to be read and, between open and close, trained in place; valid until the next call.
  virtual absl::StatusOr<Rows> open(std::uint32_t first, std::uint32_t last) = 0;
  /// Adds what was trained since open() of the same rows: so many ratings since mini_batch_begins() or open(),
  /// whichever came later.
  virtual absl::Status close(std::uint64_t trained) = 0;
  /// Around each mini-batch, which may lie in an open slice or open others. `trained` is as for close().
  virtual void mini_batch_begins() {}
  virtual void mini_batch_ends(std::uint64_t /*trained*/) {}
  /// This worker has finished a block.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see all that any worker has trained, until the next barrier.
  virtual absl::Status barrier() = 0;
};

class LocalItems final : public ItemStore {
 public:
  explicit LocalItems(FactorRows& rows) : rows_(rows) {}
  absl::StatusOr<Rows> open(std::uint32_t first, std::uint32_t /*last*/) override {
    return rows_.rows(first);
  }
  absl::Status close(std::uint64_t /*trained*/) override { return absl::OkStatus(); }
  absl::Status clock() override { return absl::OkStatus(); }
  absl::Status barrier() override { return absl::OkStatus(); }

 private:
  FactorRows& rows_;
};

/// Copies a slice at a time: one pull, training on the copy, one push of the difference.
class TableItems final : public ItemStore {
 public:
  /// `slice_rows` is the largest last − first that will be asked for. What is done of a mini-batch while a slice is
  /// open is what `slowdown` slows, mini-batch by mini-batch: a slow worker is slow all over the clock.
  TableItems(Session& session, Table<float>& table, const RowFormat& format, std::size_t slice_rows,
             Slowdown& slowdown)
      : session_(session), table_(table), rows_(slice_rows, format), slowdown_(slowdown) {}
  absl::StatusOr<Rows> open(std::uint32_t first, std::uint32_t last) override;
  absl::Status close(std::uint64_t trained) override;
  /// A slow worker is slow all over the clock: where it ends early, what is left is left.
  void mini_batch_begins() override { slowdown_.computing_begins(); }
  void mini_batch_ends(std::uint64_t trained) override { slowdown_.computing_ends(trained); }
  absl::Status clock() override;
  absl::Status barrier() override { return session_.barrier(); }

 private:
  Session& session_;
  Table<float>& table_;
  FactorRows rows_;
  Slowdown& slowdown_;
  std::vector<float> packed_;  // as pulled
  KeyRange range_;
};

}  // namespace verbena::apps::mf
