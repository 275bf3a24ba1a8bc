// Memory of this process that the peer of one connection may reach, by random keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::transport::tcp {

class Grants {
 public:
  /// The same descriptor for a region that was granted already.
  absl::StatusOr<RemoteDescriptor> add(const MemoryRegion& region);
  /// The region is about to be destroyed.
  void remove(const MemoryRegion& region);

  /// The memory that the peer speaks of; nullptr unless `right` was granted to it for all of these bytes.
  [[nodiscard]] std::byte* find(std::uint64_t key, std::uint64_t address, std::uint64_t length,
                                Access right) const;

 private:
  absl::flat_hash_map<std::uint64_t, const MemoryRegion*> regions_;  ///< by key
  absl::flat_hash_map<const MemoryRegion*, std::uint64_t> keys_;
};

}  // namespace verbena::transport::tcp
