// Where the topic counts of words live while they are trained: in local arrays for the plain loop, in tables
// of the parameter server for a worker. Counts are rows of one number for each topic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/embedding/moving_blocks.hpp"
#include "apps/training_watch.hpp"
#include <verbena/table.hpp>

namespace verbena::apps::lda {

using Counts = std::span<std::int32_t>;

class WordCounts {
 public:
  explicit WordCounts(std::size_t topics) : topics_(topics), totals_(topics, 0) {}
  virtual ~WordCounts() = default;

  /// Rows of some words: at places of their own, or one after the other.
  struct Rows {
    std::int32_t* const* places = nullptr;  ///< of each requested word; nullptr: they follow `first`
    std::int32_t* first = nullptr;
    const Key* words = nullptr;  ///< nullptr: row i belongs to the i-th requested word
    std::size_t topics = 0;
    [[nodiscard]] std::int32_t* operator[](std::size_t i) const {
      if (places != nullptr) return places[i];
      return first + (words == nullptr ? i : words[i]) * topics;
    }
  };

  /// The words of a block are opened from now on until clock().
  virtual absl::Status block_begins(Upcoming /*upcoming*/) { return absl::OkStatus(); }

  /// Returns the words' rows. The caller changes them and totals() in place until close(). `words` must live
  /// until then.
  virtual absl::StatusOr<Rows> open(std::span<const Key> words) = 0;
  /// Adds what was changed since open(). `tokens`: how many were sampled.
  virtual absl::Status close(std::uint64_t tokens) = 0;
  /// This worker has finished an iteration.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see all that any worker has trained, until the next barrier.
  virtual absl::Status barrier() = 0;

  /// Copies of rows, packed.
  virtual absl::Status read(KeyRange words, Counts rows) = 0;
  virtual absl::Status read(std::span<const Key> words, Counts rows) = 0;
  virtual absl::Status read_totals() = 0;

  /// Tokens of each topic, as of open() or read_totals().
  [[nodiscard]] Counts totals() { return totals_; }
  [[nodiscard]] std::size_t topics() const { return topics_; }

 protected:
  std::size_t topics_;
  std::vector<std::int32_t> totals_;
};

class LocalCounts final : public WordCounts {
 public:
  LocalCounts(std::size_t vocabulary, std::size_t topics)
      : WordCounts(topics), rows_(vocabulary * topics, 0) {}
  absl::StatusOr<Rows> open(std::span<const Key> words) override {
    return Rows{.first = rows_.data(), .words = words.data(), .topics = topics_};
  }
  absl::Status close(std::uint64_t /*tokens*/) override { return absl::OkStatus(); }
  absl::Status clock() override { return absl::OkStatus(); }
  absl::Status barrier() override { return absl::OkStatus(); }
  absl::Status read(KeyRange words, Counts rows) override;
  absl::Status read(std::span<const Key> words, Counts rows) override;
  absl::Status read_totals() override { return absl::OkStatus(); }

 private:
  std::vector<std::int32_t> rows_;
};

/// Copies some rows at a time: one pull, training on the copy, one push of what changed.
class TableCounts : public WordCounts {
 public:
  static constexpr const char* kRowsName = "lda.word_topics";
  static constexpr const char* kTotalsName = "lda.topics";

  /// `rows`: [vocabulary, topics], `totals`: [1, topics]. `watch` measures what is done between open() and
  /// close().
  TableCounts(Session& session, Table<std::int32_t>& rows, Table<std::int32_t>& totals, TrainingWatch& watch);
  absl::StatusOr<Rows> open(std::span<const Key> words) override;
  absl::Status close(std::uint64_t tokens) override;
  absl::Status clock() override;
  absl::Status barrier() override { return session_.barrier(); }
  absl::Status read(KeyRange words, Counts rows) override { return rows_.pull(words, rows); }
  absl::Status read(std::span<const Key> words, Counts rows) override { return rows_.pull(words, rows); }
  absl::Status read_totals() override { return totals_table_.pull(KeyRange{0, 1}, totals_); }

 protected:
  /// Copies of these words' rows, packed, until add_changes() has been called.
  absl::StatusOr<std::int32_t*> copy(std::span<const Key> words);
  absl::Status copy_totals();
  absl::Status add_changes();
  [[nodiscard]] Table<std::int32_t>& rows() { return rows_; }
  [[nodiscard]] TrainingWatch& watch() { return watch_; }

 private:
  Session& session_;
  Table<std::int32_t>& rows_;
  Table<std::int32_t>& totals_table_;
  TrainingWatch& watch_;
  std::span<const Key> words_;
  std::vector<std::int32_t> trained_;
  std::vector<std::int32_t> pulled_;
  std::vector<std::int32_t> pulled_totals_;
  std::vector<Key> changed_;
};

/// The same for a dynamic table: a block's rows come to this worker's node, and are trained in place. Rows
/// that are not here, or that another worker holds, are copied. REQUIRES:
/// Session::limit_lead(Turns::clocks_ahead).
class MovingCounts final : public TableCounts {
 public:
  /// `allocation` and `ahead`: as for MovingBlocks.
  MovingCounts(Session& session, Table<std::int32_t>& rows, Table<std::int32_t>& totals, TrainingWatch& watch,
               RowAllocation allocation, bool ahead)
      : TableCounts(session, rows, totals, watch), blocks_(session, rows.untyped(), allocation, ahead) {}
  absl::Status block_begins(Upcoming upcoming) override { return blocks_.block_begins(upcoming); }
  absl::StatusOr<Rows> open(std::span<const Key> words) override;
  absl::Status close(std::uint64_t tokens) override;

 private:
  absl::StatusOr<bool> try_open(std::span<const Key> words);

  MovingBlocks blocks_;
  HeldRows held_;
  std::vector<std::int32_t*> places_;
  std::vector<Key> copied_;
};

}  // namespace verbena::apps::lda
