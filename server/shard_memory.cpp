#include "server/shard_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "protocol/placement.hpp"
#include "protocol/row_stride.hpp"
#include "server/moving_shard.hpp"
#include <verbena/consistency.hpp>

namespace verbena::server {

namespace {

// Shards are never given back, so what an arena hands out is the region's fresh, zeroed memory.
constexpr std::size_t kArenaBytes = std::size_t{16} << 20;
constexpr std::size_t kCacheLineBytes = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<TableShard>> ShardMemory::create(const protocol::OpenTable& table,
                                                                const Place& place) {
  absl::StatusOr<ConsistencyModel> model = parse_consistency(table.consistency);
  if (!model.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", table.name, std::string(model.status().message())));
  }
  const consistency::Rules rules = consistency::rules_of(*model);
  const absl::StatusOr<protocol::UpdateRule> rule =
      protocol::check_together(table, {.sums = rules.needs_sums(),
                                       .fractions = rules.weighs_means,
                                       .rows_stay = !consistency::allows_moving_rows(*model)});
  if (!rule.ok()) return rule.status();
  if (table.allocation == Allocation::kDynamic)
    return MovingShard::create(transport_, table, *rule, place.server, place.placement);
  return create_fixed(table, rules, *rule, place);
}

absl::StatusOr<std::unique_ptr<TableShard>> ShardMemory::create_fixed(const protocol::OpenTable& table,
                                                                      const consistency::Rules& rules,
                                                                      const protocol::UpdateRule& rule,
                                                                      const Place& place) {
  auto shard = std::make_unique<FixedShard>(table);
  shard->rules = rules;
  shard->rule = rule;
  shard->stride_bytes = protocol::row_stride_bytes(table.value_type, table.width);
  const protocol::TablePlacement placement = place.placement.table(table.rows);
  shard->range = protocol::RowRange(placement.keys(place.server));
  for (std::uint32_t lane = 0; lane < place.lanes; ++lane)
    shard->lanes.push_back(placement.keys(place.server, lane, place.lanes));
  const std::size_t bytes = std::max(kCacheLineBytes, shard->range.size() * shard->stride_bytes);
  RETURN_IF_ERROR(allocate(bytes, *shard));
  if (shard->rules.pushes_eagerly) {
    const std::size_t needed =
        FixedShard::books_bytes(shard->range.size(), place.workers, place.has_push_budget);
    auto books = transport_.allocate_region(needed, transport::Access::kLocal);
    if (!books.ok()) {
      return absl::Status(books.status().code(),
                          fmt::format("table \"{}\" needs {} bytes here to know who has which row: {}",
                                      table.name, needed, std::string(books.status().message())));
    }
    shard->books = std::move(*books);
    shard->keep_books_in(shard->books->bytes(), place.workers, place.has_push_budget);
  }
  // Zeroed, like all fresh regions.
  const auto allocate_for_rows = [&](std::size_t row_bytes,
                                     std::unique_ptr<transport::MemoryRegion>& region) -> absl::Status {
    const std::size_t needed = std::max<std::uint64_t>(shard->range.size(), 1) * row_bytes;
    auto allocated = transport_.allocate_region(needed, transport::Access::kLocal);
    if (!allocated.ok()) {
      return absl::Status(allocated.status().code(),
                          fmt::format("table \"{}\" needs {} bytes here for the rule \"{}\": {}", table.name,
                                      needed, table.rule, std::string(allocated.status().message())));
    }
    region = std::move(*allocated);
    return absl::OkStatus();
  };
  if (rule.state_bytes() > 0) RETURN_IF_ERROR(allocate_for_rows(rule.state_bytes(), shard->states));
  if (rules.holds_updates_back && !rule.is_addition()) {
    RETURN_IF_ERROR(allocate_for_rows(sizeof(std::uint32_t), shard->steps));
    shard->step_of = reinterpret_cast<std::uint32_t*>(shard->steps->bytes().data());
  }
  return shard;
}

absl::Status ShardMemory::allocate(std::size_t bytes, FixedShard& shard) {
  // A shard as large as its arena would not fit after jemalloc has rounded it up to a size class.
  const bool large = bytes > kArenaBytes / 4;
  if (large || arenas_.empty() || (shard.rows = arenas_.back()->allocate(bytes, kCacheLineBytes)).empty()) {
    auto arena = transport::RegisteredArena::create(transport_, transport::Access::kRemoteRead,
                                                    large ? bytes : kArenaBytes);
    if (!arena.ok()) {
      return absl::Status(arena.status().code(),
                          fmt::format("table \"{}\" needs {} bytes here: {}", shard.table.name, bytes,
                                      std::string(arena.status().message())));
    }
    // The newest arena serves the next small tables; one made for a large table is full anyway.
    arenas_.insert(large ? arenas_.begin() : arenas_.end(), std::move(*arena));
    transport::RegisteredArena& fresh = large ? *arenas_.front() : *arenas_.back();
    shard.rows = fresh.allocate(bytes, kCacheLineBytes);
    shard.region = &fresh.region();
  } else {
    shard.region = &arenas_.back()->region();
  }
  if (shard.rows.empty()) {
    return absl::ResourceExhaustedError(
        fmt::format("table \"{}\": no room for {} bytes in registered memory", shard.table.name, bytes));
  }
  return absl::OkStatus();
}

}  // namespace verbena::server
