// A file that is there whole, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::apps {

/// Collects bytes in an unnamed file beside `path` and gives it the name in commit(). If the process is
/// killed before that, it leaves nothing behind. An older file of that name stays until then.
///
/// What is no regular file (a pipe, /dev/stdout, a device) is written directly, so that it can be watched.
class OutputFile {
 public:
  /// Checks whether `path` can be written and `expected_bytes` fit; leaves nothing there. NOT_FOUND for a
  /// missing folder, INVALID_ARGUMENT for anything else that is wrong, with the path and the reason. For
  /// Application::check().
  static absl::Status check(const std::string& path, std::uint64_t expected_bytes = 0);

  /// Errors as check(). The umask decides the permissions.
  static absl::StatusOr<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();  ///< without commit(): nothing was written

  /// Buffered. The first error is kept, the rest of the calls do nothing, and commit() returns it.
  void write(std::string_view bytes);
  /// Hands the buffer to the system; for outputs that somebody watches.
  void flush();
  [[nodiscard]] const absl::Status& status() const { return status_; }

  /// Brings everything to the disk, still without its name: what remains for commit() is to give it that. For
  /// files that are of use only together.
  absl::Status sync();
  /// If this returns OK, everything is on the disk under its name; if not, nothing new is there, or, if only
  /// the folder could not be brought to the disk, what is new may be there.
  absl::Status commit();

 private:
  OutputFile(std::string path, int descriptor, bool direct)
      : path_(std::move(path)), descriptor_(descriptor), direct_(direct) {}
  void fail(std::string_view what, int error);
  absl::Status give_name();
  [[nodiscard]] absl::Status sync_folder() const;
  absl::Status copy_to(int target);
  void close_descriptor();

  std::string path_;
  std::string buffer_;
  int descriptor_ = -1;
  bool direct_ = false;  ///< `path_` is no regular file
  absl::Status status_;
};

/// Writes a file with this text.
absl::Status write_file(const std::string& path, std::string_view text);

}  // namespace verbena::apps
