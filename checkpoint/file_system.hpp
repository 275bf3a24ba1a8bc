// The few calls to the file system that checkpoints are made of. They are behind an interface, so that tests
// can let each of them fail, and can cut the power between any two.
//
// What is promised is what POSIX promises: bytes are on the disk once sync() of their file has returned OK,
// and names once sync_folder() of their folder has. Before that, each of them may be there after a crash, or
// not, or half. After a sync() that failed nothing is known of the file, and a second one that returns OK
// means nothing (Rebello et al., ATC'20): the file must be written anew.
//
// Errors name the path and what was tried, and have the code that absl gives to errno: NOT_FOUND,
// ALREADY_EXISTS, RESOURCE_EXHAUSTED (a full disk), …
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::checkpoint {

/// A file that this process has made. The destructor closes it, without sync().
class NewFile {
 public:
  virtual ~NewFile() = default;
  /// All bytes, or an error; then some of them may be there.
  virtual absl::Status append(std::span<const std::byte> bytes) = 0;
  virtual absl::Status sync() = 0;
};

/// A file that is read.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// When it was opened.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  /// Fills `to` with the bytes from `offset` on. DATA_LOSS: the file ends before. May be called by several
  /// threads.
  virtual absl::Status read(std::uint64_t offset, std::span<std::byte> to) const = 0;
};

struct FolderEntry {
  enum class Kind { kFile, kFolder, kOther };  ///< kOther: also a symbolic link, whatever it leads to
  std::string name;
  Kind kind = Kind::kOther;
};

/// Thread safety: all calls may come from several threads.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// A new, empty file that only this user can read and write. ALREADY_EXISTS: the name is taken.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> create(const std::string& path) = 0;
  /// INVALID_ARGUMENT: no regular file.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  /// A folder that only this user can enter. ALREADY_EXISTS: the name is taken, by whatever it is.
  virtual absl::Status make_folder(const std::string& path) = 0;
  virtual absl::Status sync_folder(const std::string& path) = 0;
  /// In any order, without "." and "..".
  virtual absl::StatusOr<std::vector<FolderEntry>> list(const std::string& path) = 0;
  /// Within one folder. A file takes the place of a file of that name; a folder must find the name free.
  virtual absl::Status rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status remove_file(const std::string& path) = 0;
  /// An empty one.
  virtual absl::Status remove_folder(const std::string& path) = 0;
};

/// That of this host, or what stands in for it in this thread (base/stand_in.hpp).
FileSystem& host_file_system();

/// A new file that holds this text; the text is on the disk, the name when its folder is. ALREADY_EXISTS as
/// FileSystem::create().
absl::Status write_synced(FileSystem& files, const std::string& path, std::string_view text);
/// All of a file. INVALID_ARGUMENT: it has more than `most_bytes`.
absl::StatusOr<std::string> read_text(FileSystem& files, const std::string& path, std::uint64_t most_bytes);

}  // namespace verbena::checkpoint
