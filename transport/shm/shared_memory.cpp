#include "transport/shm/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/return_if_error.hpp"

namespace verbena::transport::shm {

namespace {

// Beyond this limit the kernel would send SIGXFSZ.
absl::Status check_file_size_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} bytes of shared memory exceed the limit of {} bytes on files (ulimit -f)", bytes, limit.rlim_cur));
}

}  // namespace

void Mapping::reset() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

absl::StatusOr<base::FileDescriptor> create_memory(const char* name, std::size_t bytes) {
  RETURN_IF_ERROR(check_file_size_limit(bytes));
  base::FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) {
    const int error = errno;
    return absl::ErrnoToStatus(
        error, error == EMFILE
                   ? "no memory file can be created: this process has as many files open as it may "
                     "(ulimit -n says how many; a table that grows needs one for each piece)"
                   : "no memory file can be created (memfd_create)");
  }
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, fmt::format("no memory file of {} bytes can be made", bytes));
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return absl::ErrnoToStatus(errno, "the size of a memory file cannot be sealed");
  }
  return file;
}

absl::Status make_read_only(const base::FileDescriptor& file) {
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno, "a memory file cannot be sealed against writing by peers (Linux 5.1 or newer is needed)");
}

absl::StatusOr<base::FileDescriptor> read_only_descriptor(const base::FileDescriptor& file) {
  base::FileDescriptor reader(
      ::open(fmt::format("/proc/self/fd/{}", file.get()).c_str(), O_RDONLY | O_CLOEXEC));  // NOLINT(*-vararg)
  if (reader.valid()) return reader;
  return absl::ErrnoToStatus(errno, "a memory file cannot be opened for reading only (is /proc mounted?)");
}

absl::Status check_received(const base::FileDescriptor& file, std::size_t bytes) {
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    return absl::PermissionDeniedError("the peer sent no memory file where one is expected");
  }
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || info.st_size < 0 ||
      static_cast<std::size_t>(info.st_size) < bytes) {
    return absl::PermissionDeniedError(
        fmt::format("the peer sent a memory file that can shrink or has fewer than {} bytes", bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Mapping> map_memory(const base::FileDescriptor& file, std::size_t bytes,
                                   Protection protection) {
  const int flags = protection == Protection::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, bytes, flags, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    return absl::ErrnoToStatus(error, fmt::format("{} bytes of shared memory cannot be mapped", bytes));
  }
  return Mapping({static_cast<std::byte*>(address), bytes});
}

std::uint64_t resident_bytes(const base::FileDescriptor& file) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return 0;
  return static_cast<std::uint64_t>(info.st_blocks) * 512;  // the unit of st_blocks
}

}  // namespace verbena::transport::shm
