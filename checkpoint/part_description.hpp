// What a part holds, in a file beside its data files, for the process that writes the manifest: NAME.part.
// It has a place only in a checkpoint that is being written; Folder::commit() removes it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"
#include "checkpoint/manifest.hpp"

namespace verbena::checkpoint {

/// "server-0.part"
[[nodiscard]] std::string part_description_name(std::string_view part);
/// Whether it is such a name, of whatever part. It is no data file's.
[[nodiscard]] bool is_part_description_name(std::string_view name);

/// Writes what PartWriter::finish() has returned into `folder`, and brings it to the disk with its name, so
/// that another process can read it once that one is told. ALREADY_EXISTS: the part is described already.
/// REQUIRES: check(part).
absl::Status describe_part(FileSystem& files, const std::string& folder, const Part& part);
/// What describe_part() has written. NOT_FOUND: nothing. INVALID_ARGUMENT: it is not that of a sound part of
/// this name, or not yet all of it. Errors name the file.
absl::StatusOr<Part> read_part_description(FileSystem& files, const std::string& folder,
                                           std::string_view part);

}  // namespace verbena::checkpoint
