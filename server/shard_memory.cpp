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
#include "server/row_books.hpp"
#include "server/sparse_shard.hpp"
#include <verbena/consistency.hpp>

namespace verbena::server {

namespace {

constexpr std::size_t kArenaBytes = std::size_t{16} << 20;
constexpr std::size_t kCacheLineBytes = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<TableShard>> ShardMemory::create(const protocol::OpenTable& table,
                                                                const ServerPlace& place) {
  absl::StatusOr<ConsistencyModel> model = parse_consistency(table.consistency);
  if (!model.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", table.name, std::string(model.status().message())));
  }
  consistency::Rules rules = consistency::rules_of(*model);
  const absl::StatusOr<protocol::UpdateRule> rule = protocol::check_together(
      table, {.sums = rules.needs_sums(),
              .fractions = rules.weighs_means,
              .bounds_lead = !rules.acknowledges_at_once() && !rules.lets_workers_drift(),
              .rows_stay = !consistency::allows_moving_rows(*model)});
  if (!rule.ok()) return rule.status();
  rules = rules.with_one_step(rule->takes_one_step_a_clock());
  if (table.allocation == Allocation::kDynamic)
    return MovingShard::create(transport_, table, *rule, place.server, place.placement);
  if (table.key_space == KeySpace::kDense) return create_dense(table, rules, *rule, place);
  const auto initial = protocol::InitialValues::find(table.initial, table.seed, table.value_type);
  if (!initial.ok()) return initial.status();
  const auto admission = protocol::AdmissionRule::find(table.admission, table.seed);
  if (!admission.ok()) return admission.status();
  const auto eviction = protocol::EvictionRule::find(table.eviction);
  if (!eviction.ok()) return eviction.status();
  return SparseShard::create(transport_, desk_, table, rules, *rule, {*initial, *admission, *eviction},
                             place);
}

absl::StatusOr<std::unique_ptr<TableShard>> ShardMemory::create_dense(const protocol::OpenTable& table,
                                                                      const consistency::Rules& rules,
                                                                      const protocol::UpdateRule& rule,
                                                                      const ServerPlace& place) {
  auto shard = std::make_unique<DenseShard>(table, rules, rule);
  const protocol::TablePlacement placement = place.placement.table(table.rows);
  shard->range = protocol::RowRange(placement.keys(place.server));
  for (std::uint32_t lane = 0; lane < place.lanes; ++lane)
    shard->lanes.push_back(placement.keys(place.server, lane, place.lanes));
  const std::size_t bytes = std::max(kCacheLineBytes, shard->range.size() * shard->stride_bytes);
  RETURN_IF_ERROR(allocate(bytes, *shard));
  const RowBooks::Needs needs(*shard, place.workers, place.has_push_budget);
  auto books = RowBooks::create(transport_, *shard, needs, shard->range.size());
  if (!books.ok()) return books.status();
  shard->books = *std::move(books);
  shard->stored = StoredRows({.row_bytes = shard->stride_bytes,
                              .state_bytes = needs.state_bytes,
                              .bits_bytes = needs.bits_bytes,
                              .kept_bytes = needs.kept_bytes()},
                             StoredRows::kOneChunk);
  shard->stored.add_chunk(shard->books.chunk(shard->rows.data()));
  return shard;
}

absl::Status ShardMemory::allocate(std::size_t bytes, DenseShard& shard) {
  // One that is large has an arena of its own, or much of the last one would stay empty.
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
