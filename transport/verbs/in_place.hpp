// Registered memory that a peer on the same host changes in place, beside the device.
//
// Such memory is a memory file, and behind it in the file is a page that says where its owner has it. Who it is granted
// to learns the number of the owner's descriptor with the remote key, and opens the file by the owner's entry in /proc,
// which the system allows to processes of the same user.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/shm/shared_memory.hpp"

namespace verbena::transport::verbs {

/// Equal for processes that see one another in /proc. 0 where that cannot be known.
std::uint64_t process_space();

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
  /// The memory with descriptor `number` of a process. An error says why it cannot be had.
  static absl::StatusOr<InPlaceView> open(std::uint32_t process, std::uint32_t number);

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
