#include "checkpoint/file_system.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <string_view>
#include <utility>

#include "base/file_descriptor.hpp"
#include "base/return_if_error.hpp"
#include "base/stand_in.hpp"

namespace verbena::checkpoint {
namespace {

using base::FileDescriptor;

absl::Status failed(const std::string& path, std::string_view what, int error) {
  return absl::ErrnoToStatus(error, fmt::format("{}: cannot {}", path, what));
}

FileDescriptor open_descriptor(const std::string& path, int flags) {
  int number = -1;
  do {
    number = ::open(path.c_str(), flags | O_CLOEXEC, S_IRUSR | S_IWUSR);
  } while (number < 0 && errno == EINTR);
  return FileDescriptor(number);
}

absl::Status sync_descriptor(const std::string& path, int number) {
  int result = 0;
  do {
    result = ::fsync(number);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? absl::OkStatus() : failed(path, "bring to the disk (fsync)", errno);
}

/// What one call of the system may be asked for.
std::size_t piece(std::size_t bytes) {
  return std::min(bytes, std::size_t{1} << 30U);
}

class HostNewFile final : public NewFile {
 public:
  HostNewFile(std::string path, FileDescriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  absl::Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_.get(), bytes.data(), piece(bytes.size()));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failed(path_, "write", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      bytes_ += written;
    }
    begin_writing();
    return absl::OkStatus();
  }
  absl::Status sync() override { return sync_descriptor(path_, descriptor_.get()); }

 private:
  /// Lets the disk work while the caller goes on, so that sync() finds little to wait for. Only a hint: what
  /// goes wrong, sync() says.
  void begin_writing() {
    constexpr off_t kPiece = off_t{8} << 20;
    if (bytes_ - begun_ < kPiece) return;
    static_cast<void>(::sync_file_range(descriptor_.get(), begun_, bytes_ - begun_, SYNC_FILE_RANGE_WRITE));
    begun_ = bytes_;
  }

  std::string path_;
  FileDescriptor descriptor_;
  off_t bytes_ = 0;
  off_t begun_ = 0;  ///< so many bytes the disk was asked to write
};

class HostReadableFile final : public ReadableFile {
 public:
  HostReadableFile(std::string path, FileDescriptor descriptor, std::uint64_t bytes)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), bytes_(bytes) {}

  [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }

  absl::Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_ || to.size() > bytes_ - offset) return ends_early(offset, to.size());
    while (!to.empty()) {
      const ssize_t got = ::pread(descriptor_.get(), to.data(), piece(to.size()), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed(path_, fmt::format("read at offset {}", offset), errno);
      if (got == 0) return ends_early(offset, to.size());
      to = to.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  [[nodiscard]] absl::Status ends_early(std::uint64_t offset, std::size_t bytes) const {
    return absl::DataLossError(fmt::format("{}: ends before {} bytes from offset {}", path_, bytes, offset));
  }

  std::string path_;
  FileDescriptor descriptor_;
  std::uint64_t bytes_;
};

class HostFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<NewFile>> create(const std::string& path) override {
    FileDescriptor descriptor = open_descriptor(path, O_WRONLY | O_CREAT | O_EXCL);
    if (!descriptor.valid()) return failed(path, "create", errno);
    return std::make_unique<HostNewFile>(path, std::move(descriptor));
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    FileDescriptor descriptor =
        open_descriptor(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);  // not to wait at a pipe
    if (!descriptor.valid()) return failed(path, "open", errno);
    struct stat info {};
    if (::fstat(descriptor.get(), &info) != 0) return failed(path, "open", errno);
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(fmt::format("{}: expected a file, found something else", path));
    }
    return std::make_unique<HostReadableFile>(path, std::move(descriptor),
                                              static_cast<std::uint64_t>(info.st_size));
  }

  absl::Status make_folder(const std::string& path) override {
    return ::mkdir(path.c_str(), S_IRWXU) == 0 ? absl::OkStatus() : failed(path, "make the folder", errno);
  }

  absl::Status sync_folder(const std::string& path) override {
    const FileDescriptor descriptor = open_descriptor(path, O_RDONLY | O_DIRECTORY);
    if (!descriptor.valid()) return failed(path, "open the folder", errno);
    return sync_descriptor(path, descriptor.get());
  }

  absl::StatusOr<std::vector<FolderEntry>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
    if (folder == nullptr) return failed(path, "open the folder", errno);
    std::vector<FolderEntry> entries;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(folder.get());
      if (entry == nullptr && errno != 0) return failed(path, "list the folder", errno);
      if (entry == nullptr) return entries;
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info {};
      if (::fstatat(::dirfd(folder.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // it has gone in this moment
        return failed(fmt::format("{}/{}", path, name), "look at", errno);
      }
      const auto kind = S_ISREG(info.st_mode)   ? FolderEntry::Kind::kFile
                        : S_ISDIR(info.st_mode) ? FolderEntry::Kind::kFolder
                                                : FolderEntry::Kind::kOther;
      entries.push_back({.name = name, .kind = kind});
    }
  }

  absl::Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return failed(from, fmt::format("rename to {}", to), errno);
  }

  absl::Status remove_file(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? absl::OkStatus() : failed(path, "remove", errno);
  }

  absl::Status remove_folder(const std::string& path) override {
    return ::rmdir(path.c_str()) == 0 ? absl::OkStatus() : failed(path, "remove the folder", errno);
  }
};

}  // namespace

FileSystem& host_file_system() {
  static HostFileSystem file_system;
  FileSystem* const stand_in = base::StandIn<FileSystem>::get();
  return stand_in != nullptr ? *stand_in : file_system;
}

absl::Status write_synced(FileSystem& files, const std::string& path, std::string_view text) {
  const auto file = files.create(path);
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR((*file)->append(std::as_bytes(std::span(text))));
  return (*file)->sync();
}

absl::StatusOr<std::string> read_text(FileSystem& files, const std::string& path, std::uint64_t most_bytes) {
  const auto file = files.open(path);
  if (!file.ok()) return file.status();
  if ((*file)->bytes() > most_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected at most {} bytes, found {}", path, most_bytes, (*file)->bytes()));
  }
  std::string text((*file)->bytes(), '\0');
  RETURN_IF_ERROR((*file)->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace verbena::checkpoint
