#include "apps/data/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace verbena::apps {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
constexpr mode_t kMode = 0666;  // less the umask

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Whether `path` names a file that this process has open already: it is written directly, even if it is a
/// regular file.
bool names_open_file(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

/// What a symbolic link points to: the file is replaced, not the link.
std::string follow_links(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return error || !std::filesystem::is_symlink(path, error) ? path : real.string();
}

/// A name beside `path` that no other process uses.
std::string temporary_name(const std::string& path) {
  static std::atomic<int> count = 0;
  return fmt::format("{}/.{}.{}.{}", folder_of(path), std::filesystem::path(path).filename().string(),
                     ::getpid(), ++count);
}

absl::Status cannot_write(const std::string& path, std::string_view what, int error) {
  const std::string message = fmt::format("{}: cannot {}: {}", path, what, std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

/// Writes all bytes, also after EINTR. Returns 0 if all were written, else errno.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Opens an unnamed file in the folder of `path`; on failure returns -1 and sets errno.
int open_unnamed(const std::string& path) {
  const int descriptor = ::open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
  // The file system has no unnamed files: create a named one, and remove the name at once.
  const std::string name = temporary_name(path);
  const int named = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

absl::Status OutputFile::check(const std::string& path, std::uint64_t expected_bytes) {
  absl::StatusOr<OutputFile> file = create(path);
  if (!file.ok()) return file.status();
  struct statvfs space = {};
  if (file->direct_ || ::fstatvfs(file->descriptor_, &space) != 0) return absl::OkStatus();
  const std::uint64_t free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  // At least one byte, so that a full disk is found before anything is written.
  if (free_bytes < std::max<std::uint64_t>(expected_bytes, 1)) {
    return absl::InvalidArgumentError(fmt::format("{}: no space: about {} bytes are needed, {} are free",
                                                  path, std::max<std::uint64_t>(expected_bytes, 1),
                                                  free_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputFile> OutputFile::create(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the name of an output file is empty");
  struct stat existing = {};
  const bool exists = ::stat(path.c_str(), &existing) == 0;
  if (!exists && errno != ENOENT) return cannot_write(path, "open for writing", errno);
  if (exists && S_ISDIR(existing.st_mode)) return cannot_write(path, "open for writing", EISDIR);
  if (exists && (!S_ISREG(existing.st_mode) || names_open_file(path))) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0) return cannot_write(path, "open for writing", errno);
    return OutputFile(path, descriptor, true);
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) return cannot_write(path, "replace", errno);
  const std::string real = follow_links(path);
  const int descriptor = open_unnamed(real);
  if (descriptor < 0) return cannot_write(path, "create", errno);
  return OutputFile(real, descriptor, false);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      buffer_(std::move(other.buffer_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(other.direct_),
      status_(std::move(other.status_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this == &other) return *this;
  close_descriptor();
  path_ = std::move(other.path_);
  buffer_ = std::move(other.buffer_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  direct_ = other.direct_;
  status_ = std::move(other.status_);
  return *this;
}

OutputFile::~OutputFile() {
  close_descriptor();
}

void OutputFile::close_descriptor() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void OutputFile::fail(std::string_view what, int error) {
  if (status_.ok()) {
    status_ =
        absl::ResourceExhaustedError(fmt::format("{}: cannot {}: {}", path_, what, std::strerror(error)));
  }
}

void OutputFile::write(std::string_view bytes) {
  buffer_.append(bytes);
  if (buffer_.size() >= kBlockBytes) flush();
}

void OutputFile::flush() {
  if (status_.ok() && !buffer_.empty()) {
    const int error = write_all(descriptor_, buffer_);
    if (error != 0) fail("write", error);
  }
  buffer_.clear();
}

absl::Status OutputFile::sync() {
  flush();
  if (status_.ok() && !direct_ && ::fsync(descriptor_) != 0) fail("write", errno);
  return status_;
}

absl::Status OutputFile::commit() {
  if (sync().ok() && !direct_) status_ = give_name();
  close_descriptor();
  return status_;
}

absl::Status OutputFile::give_name() {
  const std::string name = temporary_name(path_);
  const std::string source = fmt::format("/proc/self/fd/{}", descriptor_);
  if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    // The name was removed when the file was created (see open_unnamed): the file cannot get another name,
    // but a copy can.
    const int copy = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    if (copy < 0) return cannot_write(path_, "create", errno);
    const absl::Status copied = copy_to(copy);
    ::close(copy);
    if (!copied.ok()) {
      ::unlink(name.c_str());
      return copied;
    }
  }
  if (::rename(name.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(name.c_str());
    return cannot_write(path_, "create", error);
  }
  return sync_folder();
}

/// The name is on the disk, too.
absl::Status OutputFile::sync_folder() const {
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return absl::OkStatus();  // a folder that may be written, and not read
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // Some file systems have no folders to bring anywhere.
  return error == 0 || error == EINVAL ? absl::OkStatus() : cannot_write(path_, "write", error);
}

absl::Status OutputFile::copy_to(int target) {
  if (::lseek(descriptor_, 0, SEEK_SET) < 0) return cannot_write(path_, "read back", errno);
  std::string block(kBlockBytes, '\0');
  for (;;) {
    const ssize_t got = ::read(descriptor_, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_write(path_, "read back", errno);
    if (got == 0) break;
    const int error = write_all(target, std::string_view(block).substr(0, static_cast<std::size_t>(got)));
    if (error != 0) {
      return absl::ResourceExhaustedError(fmt::format("{}: cannot write: {}", path_, std::strerror(error)));
    }
  }
  if (::fsync(target) != 0) return cannot_write(path_, "write", errno);
  return absl::OkStatus();
}

absl::Status write_file(const std::string& path, std::string_view text) {
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  file->write(text);
  return file->commit();
}

}  // namespace verbena::apps
