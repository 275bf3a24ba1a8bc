// One lane's part of a call of a server function, under way in the lane: which row comes next, and what the
// function has to say when there is none left.
//
// Thread safety: made in the transport's thread, then belongs to the lane; that of an observer comes back
// when it has ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "consistency/rules.hpp"
#include "protocol/row.hpp"
#include "protocol/server_function.hpp"
#include "server/lane_part.hpp"
#include "server/server_place.hpp"
#include <verbena/keys.hpp>

namespace verbena::server {

class ImageReader;
class ImageWriter;

class FunctionRun {
 public:
  /// Of the rows of a call without keys: so many, from the first one on.
  struct Window {
    std::uint64_t first = 0;
    std::uint64_t most = UINT64_MAX;
  };

  /// `function`: the call's, or why it cannot be. `worker`: kNoWorker: an observer calls.
  FunctionRun(std::uint32_t worker, std::uint32_t table, consistency::Clock clock,
              protocol::CallMessage message, const absl::StatusOr<protocol::BoundFunction>& function,
              const Window& window);
  /// `is_logged`: the other copies of the server have the call, too.
  FunctionRun(std::uint32_t worker, std::uint32_t table, consistency::Clock clock,
              protocol::CallMessage message, const absl::StatusOr<protocol::BoundFunction>& function,
              bool is_logged = false)
      : FunctionRun(worker, table, clock, std::move(message), function, Window()) {
    is_logged_ = is_logged;
  }

  [[nodiscard]] std::uint32_t worker() const { return worker_; }
  [[nodiscard]] std::uint32_t table() const { return table_; }
  [[nodiscard]] consistency::Clock clock() const { return clock_; }
  [[nodiscard]] bool changes_rows() const { return changes_rows_; }
  [[nodiscard]] bool makes_rows() const { return makes_rows_; }
  [[nodiscard]] bool is_logged() const { return is_logged_; }
  /// The process that has called is gone, and another one is its worker.
  void has_lost_its_caller() { is_of_nobody_ = true; }
  [[nodiscard]] bool is_of_nobody() const { return is_of_nobody_; }

  /// Calls on_key(key, numbers) or on_row(row) for the next rows, at most `most`: the first for a list of
  /// keys, of which some may not be the lane's, the second for a range. Returns true when there are no more.
  /// Rows that are made after the first step are not among those of a range.
  template <class OnKey, class OnRow>
  bool step(const LanePart& part, std::size_t most, const OnKey& on_key, const OnRow& on_row) {
    if (function_ == nullptr) return true;
    if (bound_->looks_at_no_rows()) {
      function_->on_part(memory_of(part));
      return true;
    }
    if (!message_.keys.empty()) {
      const std::size_t end = next_ + std::min(most, message_.keys.size() - next_);
      for (; next_ < end; ++next_) on_key(message_.keys[next_], numbers());
      return next_ == message_.keys.size();
    }
    if (!end_) begin_range(part);
    const std::size_t end = next_ + std::min(most, *end_ - next_);
    for (; next_ < end; ++next_) on_row(protocol::Row{next_});
    return next_ == *end_;
  }
  /// In step(): which of the keys is looked at; and the key that comes so many later, if there is one.
  [[nodiscard]] std::size_t index() const { return next_; }
  [[nodiscard]] std::optional<Key> key_ahead(std::size_t by) const {
    return next_ + by < message_.keys.size() ? std::optional(message_.keys[next_ + by]) : std::nullopt;
  }
  /// The range of a call without keys.
  [[nodiscard]] KeyRange range() const { return message_.range; }
  [[nodiscard]] ServerFunction& function() { return *function_; }

  // For images (image.hpp): a call that waits for its clock, and one that has ended.
  struct Call {
    std::uint32_t table = 0;
    consistency::Clock clock = 0;
    protocol::CallMessage message;
  };
  void write_call(ImageWriter& out) const;
  static Call read_call(ImageReader& in);
  /// As if nothing of it had been told.
  void write_result(ImageWriter& out) const;
  static std::shared_ptr<FunctionRun> read_result(std::uint32_t worker, ImageReader& in);

  /// After the last step: what the worker is to be told, piece by piece.
  void finish();
  /// Writes the next piece behind a header; returns the bytes of both. REQUIRES: there is room for a word.
  std::size_t write_piece(protocol::BulkHeader header, std::span<std::byte> to);
  /// The next words of the answer, at most so many.
  std::span<const std::uint64_t> take_words(std::size_t most);
  /// As if nothing of it had been told.
  void tell_again() { told_ = 0; }
  [[nodiscard]] std::size_t words_left() const { return words_.size() - told_; }
  [[nodiscard]] bool is_told() const { return words_left() == 0; }
  /// How many rows there were for the window.
  [[nodiscard]] std::uint64_t rows() const { return rows_; }

 private:
  /// One that has ended, and is logged.
  FunctionRun(std::uint32_t worker, const Call& call, std::vector<std::uint64_t> words);
  void begin_range(const LanePart& part);
  [[nodiscard]] static TableMemory memory_of(const LanePart& part);
  [[nodiscard]] std::span<const double> numbers() const {
    return std::span(message_.numbers).subspan(next_ * message_.numbers_a_key, message_.numbers_a_key);
  }

  const std::uint32_t worker_;
  const std::uint32_t table_;
  const consistency::Clock clock_;
  protocol::CallMessage message_;
  const Window window_;
  std::uint64_t rows_ = 0;
  absl::Status status_;
  bool changes_rows_ = false;
  bool makes_rows_ = false;
  bool is_logged_ = false;
  bool is_of_nobody_ = false;
  std::optional<protocol::BoundFunction> bound_;  ///< whose parameters the function may look at
  std::unique_ptr<ServerFunction> function_;      ///< nullptr: it cannot be, and status_ says why
  std::size_t next_ = 0;                          ///< the index of a key, or a row
  std::optional<std::size_t> end_;                ///< of the rows of a range
  std::vector<std::uint64_t> words_;              ///< the answer
  std::size_t told_ = 0;                          ///< how many of its words
};

}  // namespace verbena::server
