// Memory files (memfd) and their mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::transport::shm {

/// Owns a mapping.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~Mapping() { reset(); }
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      bytes_ = std::exchange(other.bytes_, {});
    }
    return *this;
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  void reset();

 private:
  std::span<std::byte> bytes_;
};

/// `bytes`, rounded up to whole pages.
std::size_t whole_pages(std::size_t bytes);

/// A zeroed memory file of `bytes` (whole pages) that nobody can resize: so a process that maps it cannot get
/// SIGBUS from a shrunk file.
absl::StatusOr<base::FileDescriptor> create_memory(const char* name, std::size_t bytes);

/// Takes the right to write the file, also through a new mapping, from every process, the owner included;
/// existing mappings keep it. Call it after the owner has mapped the file, and before a reader gets the
/// descriptor.
absl::Status make_read_only(const base::FileDescriptor& file);

/// A read-only descriptor of the same file, for peers, if the file itself cannot be made read-only because
/// one peer may write it. It prevents mistakes; a malicious process of the same user has other ways, too.
absl::StatusOr<base::FileDescriptor> read_only_descriptor(const base::FileDescriptor& file);

/// PERMISSION_DENIED unless the file, received from a peer, has at least `bytes` and cannot shrink.
absl::Status check_received(const base::FileDescriptor& file, std::size_t bytes);

enum class Protection { kRead, kReadWrite };
absl::StatusOr<Mapping> map_memory(const base::FileDescriptor& file, std::size_t bytes,
                                   Protection protection);

/// The bytes of the file for which pages of memory are allocated by now.
std::uint64_t resident_bytes(const base::FileDescriptor& file);

}  // namespace verbena::transport::shm
