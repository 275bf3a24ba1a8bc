#include "apps/mf/blocks.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <random>
#include <utility>

#include "apps/data/random.hpp"

namespace verbena::apps::mf {
namespace {

constexpr std::size_t kCacheShareBytes = std::size_t{256} << 10;

void shuffle(std::span<Rating> ratings, std::mt19937_64& random) {
  for (std::size_t n = ratings.size(); n > 1; --n)
    std::swap(ratings[n - 1], ratings[random_below(random, n)]);
}

struct RowRange {
  std::uint32_t first;
  std::uint32_t last;
  std::size_t block;
};

std::vector<RowRange> cut_into_slices(const ItemLayout& layout, std::size_t item_rows) {
  std::vector<RowRange> slices;
  for (std::size_t block = 0; block < layout.blocks(); ++block) {
    for (std::uint32_t row = layout.begin[block]; row < layout.begin[block + 1];) {
      const std::uint32_t rest = layout.begin[block + 1] - row;
      const auto rows = static_cast<std::uint32_t>(std::min<std::size_t>(rest, item_rows));
      slices.push_back({row, row + rows, block});
      row += rows;
    }
  }
  return slices;
}

}  // namespace

ItemLayout lay_out_items(std::span<const std::uint64_t> ratings_of_item, std::size_t blocks) {
  assert(blocks > 0);
  std::vector<std::uint32_t> by_count(ratings_of_item.size());
  std::iota(by_count.begin(), by_count.end(), 0U);
  std::stable_sort(by_count.begin(), by_count.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return ratings_of_item[a] > ratings_of_item[b]; });
  std::vector<std::vector<std::uint32_t>> dealt(blocks);
  for (std::size_t n = 0; n < by_count.size(); ++n) {
    // Back and forth, so that no block gets the larger count of every round.
    const std::size_t place = n % (2 * blocks);
    dealt[place < blocks ? place : 2 * blocks - 1 - place].push_back(by_count[n]);
  }
  ItemLayout layout;
  layout.row_of_item.resize(ratings_of_item.size());
  layout.begin.push_back(0);
  std::uint32_t row = 0;
  for (const std::vector<std::uint32_t>& items : dealt) {
    for (const std::uint32_t item : items) layout.row_of_item[item] = row++;
    layout.begin.push_back(row);
  }
  return layout;
}

TileLimits cache_sized(std::size_t padded_rank) {
  const std::size_t rows = std::max<std::size_t>(1, kCacheShareBytes / (padded_rank * sizeof(float)));
  return {.item_rows = rows, .user_rows = rows};
}

RatingBlocks sort_into_blocks(std::span<const Rating> ratings, const ItemLayout& layout, std::size_t users,
                              const TileLimits& limits, std::uint64_t seed) {
  const std::vector<RowRange> slices = cut_into_slices(layout, limits.item_rows);
  std::vector<std::uint32_t> slice_of_row(layout.row_of_item.size());
  for (std::uint32_t slice = 0; slice < slices.size(); ++slice) {
    std::fill(slice_of_row.begin() + slices[slice].first, slice_of_row.begin() + slices[slice].last, slice);
  }
  const std::size_t tiles_per_slice = (users + limits.user_rows - 1) / limits.user_rows;
  const auto tile_of = [&](const Rating& rating) {
    return slice_of_row[layout.row_of_item[rating.item]] * tiles_per_slice + rating.user / limits.user_rows;
  };

  std::vector<std::size_t> begin(slices.size() * tiles_per_slice + 1);
  for (const Rating& rating : ratings) ++begin[tile_of(rating) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());

  RatingBlocks result;
  result.ratings.resize(ratings.size());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (const Rating& rating : ratings) {
    const std::uint32_t row = layout.row_of_item[rating.item];
    result.ratings[next[tile_of(rating)]++] = {rating.user, row - slices[slice_of_row[row]].first,
                                               rating.value};
  }

  std::mt19937_64 random(seed);
  result.blocks.resize(layout.blocks());
  for (std::size_t s = 0; s < slices.size(); ++s) {
    Slice slice{slices[s].first, slices[s].last, {}};
    for (std::size_t t = s * tiles_per_slice; t < (s + 1) * tiles_per_slice; ++t) {
      if (begin[t] == begin[t + 1]) continue;
      slice.tiles.push_back({begin[t], begin[t + 1]});
      shuffle(std::span(result.ratings).subspan(begin[t], begin[t + 1] - begin[t]), random);
    }
    if (!slice.tiles.empty()) result.blocks[slices[s].block].push_back(std::move(slice));
  }
  return result;
}

}  // namespace verbena::apps::mf
