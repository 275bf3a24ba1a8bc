// Registered memory that a peer on the same host changes in place, beside the device: it is a memory file,
// which the owner passes to that peer and nobody else (neighbours.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/shm/shared_memory.hpp"

namespace verbena::transport::verbs {

/// Zeroed memory of this process.
struct Pages {
  shm::FileDescriptor file;  ///< of memory to be changed in place; else none
  shm::Mapping mapping;
  std::span<std::byte> bytes;  ///< of the mapping
};
absl::StatusOr<Pages> create_in_place(std::size_t bytes);

/// A peer's view of it.
class InPlaceView {
 public:
  /// Of what its owner has at `address`, as the owner says: PERMISSION_DENIED where the file is not what that
  /// needs.
  static absl::StatusOr<InPlaceView> open(const shm::FileDescriptor& received, std::uint64_t address,
                                          std::uint64_t length_bytes);

  /// What the owner has at this address; nullptr where that is not all inside.
  [[nodiscard]] std::byte* at(std::uint64_t address, std::uint64_t length_bytes) const;

 private:
  InPlaceView(shm::Mapping mapping, std::uint64_t address, std::uint64_t length_bytes)
      : mapping_(std::move(mapping)), address_(address), length_bytes_(length_bytes) {}
  shm::Mapping mapping_;
  std::uint64_t address_;
  std::uint64_t length_bytes_;
};

}  // namespace verbena::transport::verbs
