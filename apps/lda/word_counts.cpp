#include "apps/lda/word_counts.hpp"

#include <algorithm>
#include <cstring>

#include "base/return_if_error.hpp"

namespace verbena::apps::lda {
absl::Status LocalCounts::read(KeyRange words, Counts rows) {
  std::copy_n(rows_.data() + words.first * topics_, words.size() * topics_, rows.data());
  return absl::OkStatus();
}

absl::Status LocalCounts::read(std::span<const Key> words, Counts rows) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::copy_n(rows_.data() + words[i] * topics_, topics_, rows.data() + i * topics_);
  }
  return absl::OkStatus();
}

TableCounts::TableCounts(Session& session, Table<std::int32_t>& rows, Table<std::int32_t>& totals,
                         TrainingWatch& watch)
    : WordCounts(rows.width()),
      session_(session),
      rows_(rows),
      totals_table_(totals),
      watch_(watch),
      pulled_totals_(rows.width(), 0) {}

absl::StatusOr<std::int32_t*> TableCounts::copy(std::span<const Key> words) {
  words_ = words;
  pulled_.resize(words.size() * topics_);
  RETURN_IF_ERROR(rows_.pull(words, pulled_));
  trained_ = pulled_;
  return trained_.data();
}

absl::Status TableCounts::copy_totals() {
  RETURN_IF_ERROR(read_totals());
  pulled_totals_ = totals_;
  return absl::OkStatus();
}

absl::Status TableCounts::add_changes() {
  changed_.clear();
  std::int32_t* updates = pulled_.data();  // the changed rows' differences, moved to the front
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::int32_t* const before = pulled_.data() + i * topics_;
    const std::int32_t* const after = trained_.data() + i * topics_;
    if (std::memcmp(before, after, topics_ * sizeof *after) == 0) continue;
    for (std::size_t k = 0; k < topics_; ++k) updates[k] = after[k] - before[k];
    updates += topics_;
    changed_.push_back(words_[i]);
  }
  RETURN_IF_ERROR(rows_.push(changed_, std::span(pulled_).first(changed_.size() * topics_)));
  for (std::size_t k = 0; k < topics_; ++k) pulled_totals_[k] = totals_[k] - pulled_totals_[k];
  return totals_table_.push(KeyRange{0, 1}, pulled_totals_);
}

absl::StatusOr<WordCounts::Rows> TableCounts::open(std::span<const Key> words) {
  const absl::StatusOr<std::int32_t*> first = copy(words);
  if (!first.ok()) return first.status();
  RETURN_IF_ERROR(copy_totals());
  watch_.computing_begins();
  return Rows{.first = *first, .topics = topics_};
}

absl::Status TableCounts::close(std::uint64_t tokens) {
  watch_.computing_ends(tokens);
  return add_changes();
}

absl::Status TableCounts::clock() {
  watch_.clock_ends();
  return session_.clock();
}

// ---- rows that move

/// No row is held while the worker waits for copies: others may wait for the rows.
absl::StatusOr<WordCounts::Rows> MovingCounts::open(std::span<const Key> words) {
  copied_.clear();
  for (const Key word : words) {
    if (!kRowsAreHeld || !rows().is_here(word)) copied_.push_back(word);
  }
  RETURN_IF_ERROR(copy_totals());
  absl::StatusOr<bool> is_open = try_open(words);
  if (is_open.ok() && !*is_open) {
    // Another worker holds some of the rows, or they have just left.
    copied_.assign(words.begin(), words.end());
    is_open = try_open(words);
  }
  if (!is_open.ok()) return is_open.status();
  watch().computing_begins();
  return Rows{.places = places_.data(), .topics = topics_};
}

/// Copies `copied_` and holds the other words' rows. False if some of these cannot be held.
absl::StatusOr<bool> MovingCounts::try_open(std::span<const Key> words) {
  const absl::StatusOr<std::int32_t*> copies = copy(copied_);
  if (!copies.ok()) return copies.status();
  places_.assign(words.size(), nullptr);
  if (copied_.size() < words.size()) {
    absl::StatusOr<HeldRows> held = rows().hold(words, places_);
    if (!held.ok()) return held.status();
    held_ = *std::move(held);
  }
  std::size_t next_copy = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    // A row may have come since it was copied: what is trained is the copy.
    const bool is_copied = next_copy < copied_.size() && copied_[next_copy] == words[i];
    if (is_copied) places_[i] = *copies + next_copy++ * topics_;
    if (places_[i] != nullptr) continue;
    RETURN_IF_ERROR(held_.release());
    return false;
  }
  return true;
}

absl::Status MovingCounts::close(std::uint64_t tokens) {
  watch().computing_ends(tokens);
  RETURN_IF_ERROR(held_.release());
  return add_changes();
}

}  // namespace verbena::apps::lda
