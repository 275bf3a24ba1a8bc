// A user's folder of checkpoints: what is in it, in which order it comes there, and how it goes.
//
//   ckpt-20/        the checkpoint of clock 20: manifest.json and data files
//   ckpt-30.tmp/    one that is being written, or was when its writer died: data files and descriptions of
//                   parts (checkpoint/part_description.hpp). It does not count
//   ckpt-20.old/    counts as that of clock 20 as long as there is no ckpt-20: see commit()
//   ckpt-10.gone/   one that is being removed. It does not count
//
// Anything else in the folder is left alone. A checkpoint is there when its folder has such a name and in it
// a sound manifest and all files that this names, in their lengths; all of that is on the disk before the
// name is. An increment is there when what it builds upon is, too (checkpoint/layers.hpp).
//
// The newest checkpoint is that of the largest clock. Whoever wants to go on from an older one, though a
// newer one is whole, does so in another folder.
//
// One process at a time writes manifests and removes checkpoints in a folder, and one checkpoint of a clock
// is written at a time; the caller sees to that. Any number of processes may read, and write parts. All see
// the same file system.
//
// A crash at any moment leaves all checkpoints that were committed, and not removed, whole; a call that
// returned OK has happened. Errors name the path, what was tried and why it failed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/reader.hpp"

namespace verbena::checkpoint {

/// Whether it is one of these names, with any ending.
[[nodiscard]] bool is_checkpoint_name(std::string_view name);

/// Thread safety: none.
class Folder {
 public:
  /// There may be nothing at `path` yet. `files` must outlive the folder.
  Folder(FileSystem& files, std::string path);

  /// Makes ckpt-CLOCK.tmp, and what folders above it are missing, and returns its path, for a PartWriter of
  /// each process. What an earlier writer has left under this name is removed. FAILED_PRECONDITION: that
  /// holds something that is no file of a checkpoint. A ckpt-CLOCK that is there already stays until
  /// commit().
  absl::StatusOr<std::string> begin(std::uint64_t clock);

  /// Makes a checkpoint of what was written since begin(manifest.clock). REQUIRES: finish() of all of its
  /// parts has returned OK; begin() was called, by whatever process. If this returns OK, the checkpoint is
  /// there, and survives a crash. Descriptions of its parts are removed before.
  ///
  /// A checkpoint of the same clock that is there already is replaced: it becomes ckpt-CLOCK.old, the new one
  /// ckpt-CLOCK, and the old one is removed; at each moment one of them counts.
  ///
  /// INVALID_ARGUMENT: check() refuses the manifest, or what decode_manifest() would. FAILED_PRECONDITION:
  /// the files in the folder are not those that the manifest names, in their lengths; what an increment
  /// builds upon cannot be read; or a ckpt-CLOCK that would have to go holds something that is no file of a
  /// checkpoint. After an error the checkpoint counts
  /// as not written: begin again, or discard() it. (If only the last fsync failed, its name may be there.)
  absl::Status commit(Manifest manifest);
  /// The same for these parts, by their names, all of which describe_part() has described: they become
  /// manifest.parts, in this order. Also FAILED_PRECONDITION: a description is missing or damaged, or of
  /// another part; the message names it.
  absl::Status commit(Manifest manifest, std::span<const std::string> parts);

  /// Where begin(clock) has made it, for processes that were not told.
  [[nodiscard]] std::string unfinished_path(std::uint64_t clock) const;

  /// Removes ckpt-CLOCK.tmp, if it is there: after a full disk, say. FAILED_PRECONDITION as begin().
  absl::Status discard(std::uint64_t clock);

  struct Complete {
    std::uint64_t clock = 0;
    std::uint64_t run = 0;  ///< the manifest's
    std::string name;       ///< "ckpt-20"; "ckpt-20.old"
    std::string path;
    std::string written;                 ///< the manifest's
    std::uint64_t bytes = 0;             ///< of its data files
    std::optional<std::uint64_t> since;  ///< the manifest's
  };
  struct Damaged {
    std::string name;  ///< "ckpt-20"
    std::string reason;
  };
  struct Listing {
    std::vector<Complete> complete;  ///< the newest (of the largest clock) first
    std::vector<Damaged> damaged;    ///< the newest first
    /// Names that do not count: .tmp, .gone, and .old beside a complete one.
    std::vector<std::string> unfinished;

    /// What an increment among `complete` builds upon, which is among them, too; nullptr: it is none.
    [[nodiscard]] const Complete* base_of(const Complete& one) const;
    /// Counts increments among `complete` whose base is not there as damaged. `path`: the folder's.
    void drop_what_lost_its_base(const std::string& path);
  };
  /// Without reading data files: a flipped bit in one is not seen here, but by verify(). NOT_FOUND: no
  /// folder.
  absl::StatusOr<Listing> list() const;

  struct Newest {
    Reader reader;
    std::vector<Damaged> passed_over;  ///< newer ones, with all that is wrong with each
  };
  /// The newest checkpoint in which verify() finds no damage: it reads each that it considers whole. With
  /// `counts`, of those for which that is true; of one whose manifest is damaged nobody can say.
  /// NOT_FOUND: there is no checkpoint. DATA_LOSS: there are some, and all are damaged; the message names
  /// them.
  absl::StatusOr<Newest> newest_valid(const std::function<bool(const Complete&)>& counts = nullptr) const;

  /// Of the complete checkpoints of clock `newest` or an earlier one, removes all but the `most` newest and
  /// those that others build upon. REQUIRES: most > 0; none is being written, but of a larger clock than the
  /// newest of these. Those of later clocks stay, and do not count: they are another run's, or newer than
  /// what this run went on from, and must not drive out what it writes. Damaged ones stay, for whoever wants
  /// to look, and do not count. What dead writers and earlier removals have left is removed, too, if its
  /// clock is not larger than that of the newest that counts. An error does not keep it from removing others;
  /// the first is returned. Those for which `stays` is true stay besides, with what they build upon.
  absl::Status keep(std::uint64_t most, std::uint64_t newest = UINT64_MAX,
                    const std::function<bool(const Complete&)>& stays = nullptr);

 private:
  absl::StatusOr<Newest> find_newest_valid(const std::function<bool(const Complete&)>& counts,
                                           bool& has_lost_one) const;
  [[nodiscard]] static std::uint64_t clock_of(const Damaged& damaged);
  [[nodiscard]] std::string path_of(std::uint64_t clock, std::string_view ending) const;
  [[nodiscard]] absl::StatusOr<bool> exists(std::uint64_t clock, std::string_view ending) const;
  absl::Status make_folders(const std::string& path);
  absl::Status check_own(const std::string& path) const;
  absl::Status check_files(const std::string& path, const Manifest& manifest) const;
  absl::Status write_manifest(const std::string& path, const std::string& text);
  absl::Status remove_descriptions(const std::string& path);
  absl::Status make_way(std::uint64_t clock);
  absl::Status remove(std::uint64_t clock, std::string_view ending);
  absl::Status remove_files(const std::string& path);

  FileSystem& files_;
  std::string path_;
};

}  // namespace verbena::checkpoint
