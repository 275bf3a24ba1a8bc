// This server's part of a sparse table: for each lane an index and rows, in regions that are added as the
// table grows (protocol/sparse_memory.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/messages.hpp"
#include "server/fixed_shard.hpp"
#include "server/region_desk.hpp"
#include "server/row_books.hpp"
#include "server/server_place.hpp"
#include "server/sparse_part.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

class SparseShard final : public FixedShard {
 public:
  /// `desk`: carries out orders by allocate(); outlives the shard. RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<SparseShard>> create(
      transport::Transport& transport, RegionDesk& desk, const protocol::OpenTable& open,
      const consistency::Rules& rules, const protocol::UpdateRule& rule, const LifeOfRows& life,
      const ServerPlace& place);

  /// Nothing: its regions are granted one by one.
  [[nodiscard]] absl::StatusOr<transport::RemoteDescriptor> grant(transport::Connection& /*connection*/,
                                                                  bool /*is_own_node*/) const override {
    return transport::RemoteDescriptor{};
  }
  [[nodiscard]] std::size_t regions() const override { return regions_.size(); }
  [[nodiscard]] absl::StatusOr<protocol::RegionAdded> grant_region(
      std::size_t region, transport::Connection& connection) const override;
  [[nodiscard]] LanePart part(std::uint32_t lane) const override {
    return {.rows = &parts_[lane]->rows(), .sparse = parts_[lane].get()};
  }

  void add_memory(std::uint32_t lane, std::vector<std::span<std::byte>>& extents) const override {
    parts_[lane]->add_memory(extents);
  }
  absl::Status read_part(std::uint32_t lane, std::string_view part) override;

  /// Carries out an order of one of its parts. The caller then has the newest region announced to all
  /// workers that have opened the table, and does not wait until they have heard of it.
  void allocate(RegionDesk::Order& order);

 private:
  struct Region {
    std::uint32_t lane = 0;
    protocol::RegionKind kind = protocol::RegionKind::kRoot;
    std::uint32_t number = 0;
    std::unique_ptr<transport::MemoryRegion> memory;
    RowBooks books;  ///< kRows
  };

  SparseShard(transport::Transport& transport, const protocol::OpenTable& open,
              const consistency::Rules& rules, const protocol::UpdateRule& rule,
              const protocol::EvictionRule& eviction, const ServerPlace& place);
  [[nodiscard]] std::uint64_t items_of(protocol::RegionKind kind, std::uint32_t number) const;

  [[nodiscard]] absl::Status check_keys_of(std::uint32_t lane,
                                           const protocol::BulkMessage& message) const override {
    return protocol::check_keys(message, parts_[lane]->keys());
  }
  [[nodiscard]] absl::Status check_key_of(std::uint32_t lane, Key key) const override {
    const protocol::HashedKeys& keys = parts_[lane]->keys();
    return keys.has(key) ? absl::OkStatus() : protocol::wrong_record(key, keys);
  }
  [[nodiscard]] std::uint64_t most_rows_of(std::uint32_t /*lane*/) const override {
    return protocol::kMaxRows;
  }

  transport::Transport& transport_;
  const RowBooks::Needs needs_;
  const std::uint64_t most_rows_;  ///< of a lane
  const std::uint32_t rows_shift_;
  const std::uint32_t segments_shift_;
  std::vector<Region> regions_;                     ///< the newest last
  std::vector<std::unique_ptr<SparsePart>> parts_;  ///< by lane
};

}  // namespace verbena::server
