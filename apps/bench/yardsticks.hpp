// What the machine itself needs for the same bytes, measured in the same run: the way of the data, written by
// hand. Short ones are timed by batches, also round trips: a look at the clock would be a tenth of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/bench/samples.hpp"

namespace verbena::apps::bench {

/// memcpy of `bytes` from one buffer to another, both warm.
Samples time_memcpy(const TimingOptions& options, std::size_t bytes);

/// `rows` rows of `width` floats handed from one core to another and added to rows there: copied into a ring,
/// chunk by chunk, from where another thread adds them. An operation is all rows, in a pipeline. The ring has
/// the size, of several, with which that takes the least time. A push over shared memory does as much, and
/// has keys, checks and clocks besides. `sums`: if given, becomes what the rows have come to, of updates
/// of 1. REQUIRES: `rows` is a multiple of 10.
Samples time_hand_over(const TimingOptions& options, std::size_t rows, std::size_t width,
                       std::vector<float>* sums = nullptr);

inline constexpr std::size_t kMostFloatsOfAnswer = 126;
/// `asked` floats are written for another core, which finds a word beside them changed, adds them to a row,
/// and writes `answered` floats of the row for this core, which finds a word beside them changed and copies
/// them: two notifications and an addition, without anything else. `last`: if given, becomes the last answer;
/// the row begins with 1, and 1 is added to each of its first floats by every question. REQUIRES: neither is
/// more than kMostFloatsOfAnswer.
Samples time_answers(const TimingOptions& options, std::size_t asked, std::size_t answered,
                     std::vector<float>* last = nullptr);

/// Rows of `width` floats added to rows, one after the other in the order of `keys`. `sums`: as for
/// time_hand_over().
Samples time_row_additions(const TimingOptions& options, std::span<const std::uint64_t> keys,
                           std::size_t width, std::vector<float>* sums = nullptr);

/// memcpy of rows of `row_bytes`, one after the other in the order of `keys`; an operation is `keys_each`
/// rows.
Samples time_row_copies(const TimingOptions& options, std::span<const std::uint64_t> keys,
                        std::size_t keys_each, std::size_t row_bytes);

/// The same with rows that absl::flat_hash_map finds by their keys.
Samples time_map_reads(const TimingOptions& options, std::span<const std::uint64_t> keys,
                       std::size_t keys_each, std::size_t row_bytes);

/// Steps of an update rule along one gradient in rows of `width` floats, one row after the other in the order
/// of `keys`; an operation is `keys_each` rows. INVALID_ARGUMENT: no such rule.
absl::StatusOr<Samples> time_steps(const TimingOptions& options, std::string_view rule, std::uint32_t width,
                                   std::span<const std::uint64_t> keys, std::size_t keys_each);

/// A cache line that goes to another core and back: two threads spin on it. No answer from another core can
/// be faster.
Samples time_core_round_trip(const TimingOptions& options);

}  // namespace verbena::apps::bench
