// A file system in memory that keeps no more than POSIX promises, for tests that fail its calls and cut its
// power.
//
// Bytes that were not synced, and names whose folder was not, may be there after a crash or not: see
// for_each_survivor(). After a sync() that has failed the bytes are lost, and the next sync() says OK, as on
// Linux.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "checkpoint/file_system.hpp"

namespace verbena::checkpoint {

/// Paths are relative to its root, which is there. Thread safety: none.
class SimulatedDisk final : public FileSystem {
 public:
  enum class Operation {
    kCreate,
    kWrite,
    kSync,
    kMakeFolder,
    kSyncFolder,
    kRename,
    kRemoveFile,
    kRemoveFolder
  };
  /// Comes before each operation that changes the disk. An error is the operation's result; then it has not
  /// happened, but half of a write has.
  using Interception = std::function<absl::Status(Operation operation, const std::string& path)>;

  SimulatedDisk();
  SimulatedDisk(SimulatedDisk&&) = default;
  SimulatedDisk& operator=(SimulatedDisk&&) = default;

  void intercept(Interception interception) { interception_ = std::move(interception); }
  /// From now on sync() of this file, or sync_folder() of this folder, says OK and does nothing.
  void ignore_syncs_of(std::string path) { ignored_ = std::move(path); }

  /// All that is there now is on the disk.
  void settle();

  /// Calls visit() with each disk that may be found after a power failure now: every choice of names that
  /// were not synced, and of each file's bytes that were not: none, all, half, zeros in their place. If the
  /// names of a folder are many, not all choices. Ends early if visit() returns false.
  void for_each_survivor(absl::FunctionRef<bool(SimulatedDisk&)> visit) const;
  /// One of these. Where something may be there in several ways, choose(their number) says in which, from 0
  /// on.
  [[nodiscard]] SimulatedDisk survivor(absl::FunctionRef<std::size_t(std::size_t ways)> choose) const;

  /// The bytes of a file, to be damaged. REQUIRES: it is there.
  std::string& bytes_of(const std::string& path);
  void put_file(const std::string& path, std::string_view bytes) {
    put(path, FolderEntry::Kind::kFile, bytes);
  }
  void put_folder(const std::string& path) { put(path, FolderEntry::Kind::kFolder, {}); }
  /// Something that is no file and no folder.
  void put_link(const std::string& path) { put(path, FolderEntry::Kind::kOther, {}); }
  /// All files, by path.
  [[nodiscard]] std::vector<std::string> paths() const;

  absl::StatusOr<std::unique_ptr<NewFile>> create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  absl::Status make_folder(const std::string& path) override;
  absl::Status sync_folder(const std::string& path) override;
  absl::StatusOr<std::vector<FolderEntry>> list(const std::string& path) override;
  absl::Status rename(const std::string& from, const std::string& to) override;
  absl::Status remove_file(const std::string& path) override;
  absl::Status remove_folder(const std::string& path) override;

 private:
  struct Node;
  using NodePointer = std::shared_ptr<Node>;
  /// Names that come to mean something else together; nullptr: nothing any more.
  using Change = std::vector<std::pair<std::string, NodePointer>>;
  struct Node {
    FolderEntry::Kind kind = FolderEntry::Kind::kFile;
    std::string bytes;
    std::size_t synced_bytes = 0;  ///< the first so many are on the disk
    bool is_lost = false;          ///< a sync() has failed
    std::map<std::string, NodePointer> names;
    std::map<std::string, NodePointer> synced_names;
    std::vector<Change> changes;  ///< from synced_names to names
  };
  class File;
  class Survival;

  void put(const std::string& path, FolderEntry::Kind kind, std::string_view bytes);
  absl::Status may(Operation operation, const std::string& path) const;
  [[nodiscard]] absl::StatusOr<NodePointer> find(const std::string& path) const;
  /// The folder that a path is in, and the name there.
  [[nodiscard]] absl::StatusOr<std::pair<NodePointer, std::string>> place_of(const std::string& path) const;
  absl::Status add(const std::string& path, NodePointer node);
  static void settle(Node& node);
  static void apply(const Change& change, std::map<std::string, NodePointer>& names);

  NodePointer root_;
  Interception interception_;
  std::string ignored_;
};

}  // namespace verbena::checkpoint
