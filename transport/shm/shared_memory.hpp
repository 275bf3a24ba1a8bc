// Memory files (memfd) and their mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::transport::shm {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

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

/// A zeroed memory file of `bytes` (whole pages) that nobody can resize: whoever maps it need not fear
/// SIGBUS.
absl::StatusOr<FileDescriptor> create_memory(const char* name, std::size_t bytes);

/// Takes the right to write the file, also through a new mapping, from everyone, owner included; mappings
/// that exist keep it. To be called once the owner has mapped it, before a reader gets the descriptor.
absl::Status make_read_only(const FileDescriptor& file);

/// A descriptor of the same file that can only be read, for peers, where the file itself cannot be made so
/// because one peer may write. Keeps out mistakes; a process of the same user that means harm has other ways,
/// too.
absl::StatusOr<FileDescriptor> read_only_descriptor(const FileDescriptor& file);

/// PERMISSION_DENIED unless the file, received from a peer, has at least `bytes` and cannot shrink.
absl::Status check_received(const FileDescriptor& file, std::size_t bytes);

enum class Protection { kRead, kReadWrite };
absl::StatusOr<Mapping> map_memory(const FileDescriptor& file, std::size_t bytes, Protection protection);

/// The bytes of the file that have a page of memory by now.
std::uint64_t resident_bytes(const FileDescriptor& file);

}  // namespace verbena::transport::shm
