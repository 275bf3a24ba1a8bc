#include <fmt/format.h>

#include <algorithm>

#include "base/return_if_error.hpp"
#include "worker/session_core.hpp"
#include <verbena/data_cursor.hpp>

namespace verbena {

DataCursor::DataCursor(Session& session, const Options& options)
    : session_(session.core_.get()), options_(options), next_(options.first) {}

absl::StatusOr<ExampleRange> DataCursor::next() {
  if (!session_->is_here()) return session_->elsewhere();
  if (options_.mini_batch == 0 || options_.examples > consistency::kMaxExamples) {
    return absl::InvalidArgumentError(
        fmt::format("a data cursor over {} examples in mini-batches of {}: expected at most {} examples, and "
                    "mini-batches of 1 or more",
                    options_.examples, options_.mini_batch, consistency::kMaxExamples));
  }
  if (options_.first > 0 && options_.first >= options_.examples) {
    return absl::InvalidArgumentError(
        fmt::format("a data cursor that begins with example {} of {}: expected one of them", options_.first,
                    options_.examples));
  }
  session_->poll();  // takes in the servers' messages
  if (!session_->status().ok()) return session_->status();
  if (session_->current_clock() != clock_) {
    RETURN_IF_ERROR(session_->iteration().begin(session_->current_clock(), options_.examples));
    clock_ = session_->current_clock();
    left_ = options_.examples;
  }
  if (left_ == 0) {
    // A worker without examples has not finished first; it has nothing to do.
    if (options_.examples > 0) session_->end_iteration();
    return ExampleRange{};
  }
  const bool has_begun = left_ < options_.examples;
  if (has_begun && session_->iteration().has_ended(clock_)) return ExampleRange{};
  const ExampleRange batch{next_, std::min(next_ + std::min(options_.mini_batch, left_), options_.examples)};
  left_ -= batch.size();
  next_ = batch.last == options_.examples ? 0 : batch.last;
  session_->iteration().count_processed(batch.size());
  return batch;
}

}  // namespace verbena
