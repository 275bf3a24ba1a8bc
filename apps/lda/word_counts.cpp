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

absl::StatusOr<WordCounts::Rows> TableCounts::open(std::span<const Key> words) {
  words_ = words;
  pulled_.resize(words.size() * topics_);
  RETURN_IF_ERROR(rows_.pull(words, pulled_));
  RETURN_IF_ERROR(read_totals());
  trained_ = pulled_;
  pulled_totals_ = totals_;
  watch_.computing_begins();
  return Rows{trained_.data(), nullptr, topics_};
}

absl::Status TableCounts::close(std::uint64_t tokens) {
  watch_.computing_ends(tokens);
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
  if (absl::Status status = rows_.push(changed_, std::span(pulled_).first(changed_.size() * topics_));
      !status.ok()) {
    return status;
  }
  for (std::size_t k = 0; k < topics_; ++k) pulled_totals_[k] = totals_[k] - pulled_totals_[k];
  return totals_table_.push(KeyRange{0, 1}, pulled_totals_);
}

absl::Status TableCounts::clock() {
  watch_.clock_ends();
  return session_.clock();
}

}  // namespace verbena::apps::lda
