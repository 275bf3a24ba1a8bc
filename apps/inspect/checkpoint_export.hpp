// Tables of a checkpoint as files that other programs read: NumPy's .npy
// (numpy.org/doc/stable/reference/generated/numpy.lib.format.html) and safetensors
// (github.com/huggingface/safetensors).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"

namespace verbena::apps::inspect {

/// A dense table becomes an array of rows × width values, in which rows that the checkpoint does not have are
/// zeros; a sparse one an array of as many rows as it has, in ascending order of keys, and one of the keys.
struct ExportOptions {
  /// By its name; empty: all, which only safetensors can hold.
  std::string table = {};
  /// Where to write: one of the two. The keys of a sparse table are written to a second .npy file; in
  /// safetensors each array is a tensor, NAME of a dense table, NAME.values and NAME.keys of a sparse one.
  std::string npy = {};
  std::string safetensors = {};
  /// Memory for rows that are brought in order. Rows that are in no order in the checkpoint are read once for
  /// each such piece of their table.
  std::uint64_t window_bytes = std::uint64_t{1} << 30;
};

struct Exported {
  std::size_t tables = 0;
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;  ///< of values and keys
  std::string keys_path;    ///< of the second .npy file; empty: there is none
};

/// "w.keys.npy" for "w.npy".
[[nodiscard]] std::string keys_path_of(const std::string& npy_path);

/// INVALID_ARGUMENT: what the options say cannot be done.
absl::Status check(const ExportOptions& options);

/// Exports from the checkpoint that find_checkpoint(path) finds. `progress` is told how many of how many
/// bytes are written. If this returns OK, the files are there; if not, nothing new is.
///
/// INVALID_ARGUMENT: check(options); the manifest or the rows say what cannot be. NOT_FOUND: there is no such
/// table; the message names those there are. Errors of find_checkpoint(), checkpoint::Reader and OutputFile.
///
/// Memory: ExportOptions::window_bytes (at most 64 MB if rows are in order, and at least one row), one chunk,
/// and 8 bytes for each key of a sparse table.
absl::StatusOr<Exported> export_checkpoint(
    checkpoint::FileSystem& files, const std::string& path, const ExportOptions& options,
    absl::FunctionRef<void(std::uint64_t bytes, std::uint64_t all_bytes)> progress);

}  // namespace verbena::apps::inspect
