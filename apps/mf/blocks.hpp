// The order in which ratings are trained. Items are dealt into blocks, one of which a worker trains between
// two clocks; a block is cut into slices of item rows and a slice into tiles of users, so that the rows a
// tile touches stay in the processor's cache and a slice is pulled and pushed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/ratings.hpp"
#include <verbena/keys.hpp>

namespace verbena::apps::mf {

/// Which row of the item table an item has, and which rows make a block. A bijection; the same in all
/// workers.
struct ItemLayout {
  std::vector<std::uint32_t> row_of_item;
  std::vector<std::uint32_t> begin;  ///< block b is rows [begin[b], begin[b + 1])
  [[nodiscard]] std::size_t blocks() const { return begin.size() - 1; }
};

/// Deals items into `blocks` blocks with similar numbers of ratings, the most rated items first. Blocks may
/// be empty if there are more blocks than items.
ItemLayout lay_out_items(std::span<const std::uint64_t> ratings_of_item, std::size_t blocks);

struct TileLimits {
  std::size_t item_rows;  ///< a slice
  std::size_t user_rows;  ///< a tile
};
/// Limits with which a slice and a tile fit into a second-level cache together.
TileLimits cache_sized(std::size_t padded_rank);

/// Ratings [begin, end), which are of a contiguous range of users.
struct Tile {
  std::size_t begin;
  std::size_t end;
};

/// Item rows [first_row, last_row) and the tiles of them that have ratings.
struct Slice {
  std::uint32_t first_row;
  std::uint32_t last_row;
  std::vector<Tile> tiles;
};

/// Ratings sorted into tiles, in a random order within each. Rating::item is relative to the slice's first
/// row.
struct RatingBlocks {
  std::vector<Rating> ratings;
  std::vector<std::vector<Slice>> blocks;  ///< slices without ratings are left out
  /// All ratings of a block, which lie together.
  [[nodiscard]] Tile whole(std::size_t block) const {
    const std::vector<Slice>& slices = blocks[block];
    return slices.empty() ? Tile{0, 0}
                          : Tile{slices.front().tiles.front().begin, slices.back().tiles.back().end};
  }
  /// The block's item rows, from the first to the last that has ratings.
  [[nodiscard]] KeyRange rows(std::size_t block) const {
    const std::vector<Slice>& slices = blocks[block];
    return slices.empty() ? KeyRange{} : KeyRange{slices.front().first_row, slices.back().last_row};
  }
  [[nodiscard]] std::span<const Rating> of(const Tile& tile) const {
    return std::span(ratings).subspan(tile.begin, tile.end - tile.begin);
  }
};

/// `ratings` with Rating::user a row of this worker's users, Rating::item an item. The order depends on
/// `seed`, and on nothing but the arguments.
RatingBlocks sort_into_blocks(std::span<const Rating> ratings, const ItemLayout& layout, std::size_t users,
                              const TileLimits& limits, std::uint64_t seed);

}  // namespace verbena::apps::mf
