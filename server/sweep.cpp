#include "server/sweep.hpp"

#include <vector>

#include "protocol/random_bits.hpp"

namespace verbena::server {

using protocol::Row;
using protocol::RowUse;

namespace {

/// Rows from whose age the age of all is told.
constexpr std::size_t kSample = 4096;

}  // namespace

Sweep::Sweep(SparsePart& part, std::uint32_t now) : part_(part), now_(now), end_(part.rows_made()) {
  if (part.eviction().is_lru()) choose_oldest();
}

bool Sweep::is_due(Row row) const {
  const RowUse& use = part_.rows().use(row);
  if (use.last_push == RowUse::kNoKeys) return false;
  if (wanted_) return use.last_push <= oldest_ && use.last_push < now_;
  if (!part_.eviction().is_due(use, now_)) return false;
  const std::optional<double> least = part_.eviction().least_norm();
  return !least || part_.norm(row) < *least;
}

/// When a sixteenth of the room is all that is left, as much again is made free.
void Sweep::choose_oldest() {
  const std::uint64_t most = part_.most_keys();
  if (part_.keys_in_use() <= most - most / 16) {
    end_ = 0;
    return;
  }
  wanted_ = std::max<std::uint64_t>(part_.keys_in_use() - (most - most / 8), 1);
  std::vector<std::uint32_t> sample;
  for (std::size_t i = 0; i < 2 * kSample && sample.size() < kSample; ++i) {
    // Small tables are seen as a whole, of large ones random rows: the same in every run.
    const std::uint64_t at = end_ <= 2 * kSample ? i : protocol::random_bits(i + now_) % end_;
    if (at >= end_) break;
    const RowUse& use = part_.rows().use(Row{at});
    if (use.last_push != RowUse::kNoKeys) sample.push_back(use.last_push);
  }
  if (sample.empty()) return;
  const auto nth =
      static_cast<std::size_t>(static_cast<double>(sample.size()) * static_cast<double>(*wanted_) /
                               static_cast<double>(part_.keys_in_use()));
  const auto at = sample.begin() + static_cast<std::ptrdiff_t>(std::min(nth, sample.size() - 1));
  std::nth_element(sample.begin(), at, sample.end());
  oldest_ = *at;
}

}  // namespace verbena::server
