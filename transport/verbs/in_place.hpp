// Registered memory that the device reaches and that a peer on the same host also changes in place: it is a
// memory file, which the owner passes to that peer and to nobody else (neighbours.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/shm/shared_memory.hpp"

namespace verbena::transport::verbs {

/// Zeroed memory of this process.
struct Pages {
  base::FileDescriptor file;  ///< for memory to be changed in place; else none
  shm::Mapping mapping;
  std::span<std::byte> bytes;  ///< of the mapping
};
absl::StatusOr<Pages> create_in_place(std::size_t bytes);

/// A peer's view of memory that its owner has passed to it.
class InPlaceView {
 public:
  /// A view of the memory that its owner says it has at `address`. PERMISSION_DENIED if the file does not fit
  /// that.
  static absl::StatusOr<InPlaceView> open(const base::FileDescriptor& received, std::uint64_t address,
                                          std::uint64_t length_bytes);

  /// The memory that the owner has at this address; nullptr if it is not completely inside the view.
  [[nodiscard]] std::byte* at(std::uint64_t address, std::uint64_t length_bytes) const;

 private:
  InPlaceView(shm::Mapping mapping, std::uint64_t address, std::uint64_t length_bytes)
      : mapping_(std::move(mapping)), address_(address), length_bytes_(length_bytes) {}
  shm::Mapping mapping_;
  std::uint64_t address_;
  std::uint64_t length_bytes_;
};

}  // namespace verbena::transport::verbs
