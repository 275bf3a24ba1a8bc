#include "server/sparse_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/return_if_error.hpp"
#include "server/image_bytes.hpp"

namespace verbena::server {

using protocol::RegionKind;

namespace {

// The size of regions: a sixteenth of what a lane is expected to have, within bounds. Small ones make many
// requests and many grants; of a large one much may never be used, and on an adapter all of it is pinned.
constexpr std::uint64_t kRegionsExpected = 16;
constexpr std::size_t kLeastRegionBytes = std::size_t{1} << 20;
constexpr std::size_t kMostRegionBytes = std::size_t{256} << 20;
/// How many keys a segment has, on average.
constexpr std::uint64_t kKeysOfSegment = 4096;

/// What the index takes for a key, roughly.
constexpr std::size_t kIndexBytesAKey = 24;
constexpr std::uint64_t kLeastRowsOfLane = 64;

/// How many rows a lane may have, since the table may take no more memory.
std::uint64_t most_rows_of(std::uint64_t most_bytes, const ServerPlace& place, std::size_t row_bytes) {
  if (most_bytes == 0) return UINT64_MAX;
  return std::max<std::uint64_t>(most_bytes / place.placement.servers() / place.lanes / row_bytes,
                                 kLeastRowsOfLane);
}

/// Rows of a region, as a power of two.
std::uint32_t rows_shift_for(std::uint64_t expected_rows, std::uint64_t most_rows, const ServerPlace& place,
                             std::size_t row_bytes) {
  const std::uint64_t of_lane = std::min(expected_rows / place.placement.servers() / place.lanes, most_rows);
  const std::uint64_t least = std::max<std::uint64_t>(kLeastRegionBytes / row_bytes, 1);
  const std::uint64_t most = std::max<std::uint64_t>(kMostRegionBytes / row_bytes, 1);
  return static_cast<std::uint32_t>(std::bit_width(std::clamp(of_lane / kRegionsExpected, least, most)) - 1);
}

}  // namespace

SparseShard::SparseShard(transport::Transport& transport, const protocol::OpenTable& open,
                         const consistency::Rules& of_model, const protocol::UpdateRule& of_updates,
                         const protocol::EvictionRule& eviction, const ServerPlace& place)
    : FixedShard(open, of_model, of_updates),
      transport_(transport),
      needs_(*this, place.workers, place.has_push_budget),
      most_rows_(server::most_rows_of(eviction.most_bytes(), place,
                                      protocol::sparse_row_bytes(stride_bytes) + needs_.state_bytes +
                                          needs_.kept_bytes() + kIndexBytesAKey)),
      rows_shift_(rows_shift_for(open.rows, most_rows_, place, protocol::sparse_row_bytes(stride_bytes))),
      segments_shift_(static_cast<std::uint32_t>(
          std::bit_width(std::max<std::uint64_t>((std::uint64_t{1} << rows_shift_) / kKeysOfSegment, 8)) -
          1)) {}

absl::StatusOr<std::unique_ptr<SparseShard>> SparseShard::create(
    transport::Transport& transport, RegionDesk& desk, const protocol::OpenTable& open,
    const consistency::Rules& rules, const protocol::UpdateRule& rule, const LifeOfRows& life,
    const ServerPlace& place) {
  std::unique_ptr<SparseShard> shard(new SparseShard(transport, open, rules, rule, life.eviction, place));
  for (std::uint32_t lane = 0; lane < place.lanes; ++lane) {
    shard->parts_.push_back(std::make_unique<SparsePart>(
        SparsePart::Shape{.shard = shard.get(),
                          .lane = lane,
                          .keys = place.placement.sparse().keys(place.server, lane, place.lanes),
                          .type = open.value_type,
                          .width = open.width,
                          .life = life,
                          .expected_rows = open.rows,
                          .most_rows = shard->most_rows_,
                          .strides = {.row_bytes = protocol::sparse_row_bytes(shard->stride_bytes),
                                      .state_bytes = rule.state_bytes(),
                                      .bits_bytes = shard->needs_.bits_bytes,
                                      .kept_bytes = shard->needs_.kept_bytes()},
                          .rows_shift = shard->rows_shift_,
                          .segments_shift = shard->segments_shift_,
                          .keys_of_segment = place.keys_of_segment},
        desk));
    RETURN_IF_ERROR(shard->parts_.back()->start());
  }
  return shard;
}

absl::Status SparseShard::read_part(std::uint32_t lane, std::string_view part) {
  ImageReader in(part);
  RETURN_IF_ERROR(parts_[lane]->read_image(in));
  if (in.ends_well()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("an image of a server: its part of table \"{}\" has another length", table.name));
}

std::uint64_t SparseShard::items_of(RegionKind kind, std::uint32_t number) const {
  switch (kind) {
    case RegionKind::kRoot:
      return 1;
    case RegionKind::kDirectory:
      return std::uint64_t{1} << number;
    case RegionKind::kSegments:
      return std::uint64_t{1} << segments_shift_;
    case RegionKind::kRows:
      return std::uint64_t{1} << rows_shift_;
  }
  return 0;
}

void SparseShard::allocate(RegionDesk::Order& order) {
  const std::uint64_t items = items_of(order.kind, order.number);
  const std::size_t bytes = protocol::region_bytes(order.kind, items, stride_bytes);
  order.status = absl::OkStatus();
  auto memory = transport_.allocate_region(bytes, transport::Access::kRemoteRead);
  if (!memory.ok()) {
    order.status = absl::Status(memory.status().code(),
                                fmt::format("table \"{}\" grows, and needs {} bytes more here: {}",
                                            table.name, bytes, std::string(memory.status().message())));
    return;
  }
  Region region{.lane = order.lane, .kind = order.kind, .number = order.number, .memory = *std::move(memory)};
  order.memory = region.memory->bytes().data();
  if (order.kind == RegionKind::kRows) {
    auto books = RowBooks::create(transport_, *this, needs_, items);
    if (!books.ok()) {
      order.status = books.status();
      return;
    }
    region.books = *std::move(books);
    order.chunk = region.books.chunk(order.memory + sizeof(Key));
  }
  regions_.push_back(std::move(region));
}

absl::StatusOr<protocol::RegionAdded> SparseShard::grant_region(std::size_t number,
                                                                transport::Connection& connection) const {
  const Region& region = regions_[number];
  const absl::StatusOr<transport::RemoteDescriptor> granted = connection.grant(*region.memory);
  if (!granted.ok()) return granted.status();
  const std::uint64_t items = items_of(region.kind, region.number);
  return protocol::RegionAdded{.table = table.table,
                               .lane = region.lane,
                               .kind = region.kind,
                               .number = region.number,
                               .items = items,
                               .memory = protocol::Descriptor::of(granted->slice(
                                   0, protocol::region_bytes(region.kind, items, stride_bytes)))};
}

}  // namespace verbena::server
