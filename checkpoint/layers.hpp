// A checkpoint with those that it builds upon. An increment holds only rows that have changed since the
// checkpoint before it, its base, which may be an increment, too; the last one of such a row is whole. They
// lie beside each other in one folder, and each but the last is of no use without those below.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"
#include "checkpoint/manifest.hpp"

namespace verbena::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

/// Reads and decodes the manifest of the checkpoint at `path`. Errors name the file: DATA_LOSS it is damaged,
/// NOT_FOUND there is none, UNIMPLEMENTED it is of another format, INVALID_ARGUMENT it says what cannot be.
absl::StatusOr<Manifest> read_manifest(FileSystem& files, const std::string& path);

struct Layer {
  std::string path;
  Manifest manifest;
};

/// Reads the manifests of the checkpoint at `path`, and of its base, and so on: the newest first. A base is
/// looked for beside it, under the names by which a Folder would count it. After an error `layers` has those
/// that could be read. Errors as read_manifest(), for `path` itself; of a base the code is the same, and the
/// message says which checkpoint needs it. DATA_LOSS also: what lies there under the base's name is of
/// another job, or does not have the same tables.
absl::Status read_layers(FileSystem& files, const std::string& path, std::vector<Layer>& layers);

}  // namespace verbena::checkpoint
