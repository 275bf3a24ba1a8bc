// Which server, and which of its lanes, has which part of which table. Nothing else in a server or a worker
// knows how tables are divided.
//
// A placement is constant: a dense table is divided into one range of keys for each server, and each of these
// into one for each lane, as equal as can be; a sparse table so by its keys' hashes. What changes while a job
// runs is which process is a server of that rank: that is the configuration's affair
// (cluster/configuration.hpp).
#pragma once

#include <cstdint>

#include "protocol/partition.hpp"
#include "protocol/sparse_index.hpp"
#include <verbena/keys.hpp>

namespace verbena::protocol {

/// How one table is divided. A value; thread-safe.
class TablePlacement {
 public:
  constexpr TablePlacement(std::uint64_t rows, std::uint32_t servers) : servers_(rows, servers) {}

  [[nodiscard]] constexpr std::uint64_t rows() const { return servers_.rows(); }
  [[nodiscard]] constexpr std::uint32_t servers() const { return servers_.parts(); }
  /// The keys of a server: where the rows of a static table are, and the home of those of a dynamic table.
  [[nodiscard]] constexpr KeyRange keys(std::uint32_t server) const { return servers_.range(server); }
  /// Those that one of the server's `lanes` lanes has. The lanes' keys are consecutive, in their order.
  [[nodiscard]] constexpr KeyRange keys(std::uint32_t server, std::uint32_t lane, std::uint32_t lanes) const {
    const KeyRange all = keys(server);
    const KeyRange some = RangePartition(all.size(), lanes).range(lane);
    return {all.first + some.first, all.first + some.last};
  }
  /// REQUIRES: key < rows().
  [[nodiscard]] constexpr std::uint32_t server_of(Key key) const { return servers_.part_of(key); }

 private:
  RangePartition servers_;
};

/// The keys of a sparse table whose hashes begin with one of some parts.
class HashedKeys {
 public:
  constexpr HashedKeys() = default;
  constexpr explicit HashedKeys(KeyRange parts) : parts_(parts) {}
  [[nodiscard]] constexpr bool has(Key key) const { return has(key, KeyHash(key)); }
  [[nodiscard]] constexpr bool has(Key key, const KeyHash& hash) const {
    return key != kNoKey && parts_.contains(hash.part());
  }
  [[nodiscard]] constexpr KeyRange parts() const { return parts_; }

 private:
  KeyRange parts_;
};

/// How a sparse table is divided: by the first bits of its keys' hashes, into KeyHash's 4,096 parts, which go
/// to servers and lanes as the rows of a dense table do. A value; thread-safe.
class SparsePlacement {
 public:
  constexpr explicit SparsePlacement(std::uint32_t servers) : servers_(kParts, servers) {}

  /// The keys of one of the server's `lanes` lanes.
  [[nodiscard]] constexpr HashedKeys keys(std::uint32_t server, std::uint32_t lane,
                                          std::uint32_t lanes) const {
    return HashedKeys(servers_.keys(server, lane, lanes));
  }
  static constexpr std::uint32_t kParts = std::uint32_t{1} << KeyHash::kPartBits;

 private:
  TablePlacement servers_;
};

/// Of a job. A value; thread-safe.
class Placement {
 public:
  /// REQUIRES: servers > 0
  constexpr explicit Placement(std::uint32_t servers) : servers_(servers) {}

  [[nodiscard]] constexpr std::uint32_t servers() const { return servers_; }
  [[nodiscard]] constexpr TablePlacement table(std::uint64_t rows) const { return {rows, servers_}; }
  [[nodiscard]] constexpr SparsePlacement sparse() const { return SparsePlacement(servers_); }

 private:
  std::uint32_t servers_;
};

}  // namespace verbena::protocol
