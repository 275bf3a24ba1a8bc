// The keys of rows that are measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::bench {

/// All of 0 … rows − 1 in an order by chance, and again in others, until there are `count` or more. The same
/// in each call.
std::vector<Key> shuffled_keys(std::uint64_t rows, std::size_t count);
/// The key of a sparse table for each of these: spread over all numbers, and none twice.
std::vector<Key> spread(std::vector<Key> keys);
/// Pushes to the keys spread() makes of 0 … rows − 1, so that the sparse table has rows for them. Their order
/// is not that in which shuffled ones will be used, so that the rows' places are no better than by chance.
absl::Status make_rows(Session& session, const Table<float>& table, std::uint64_t rows);

}  // namespace verbena::apps::bench
