// A small checkpoint, for tests: written by three parts, with a dense table, a sparse one, and blobs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/reader.hpp"

namespace verbena::checkpoint {

constexpr std::uint32_t kDenseTable = 0;
constexpr std::uint32_t kSparseTable = 3;
constexpr std::uint64_t kDenseRows = 20;

/// What is in it, however it is divided.
struct Content {
  std::map<std::uint64_t, std::string> dense;   ///< by row: the bytes of all columns
  std::map<std::uint64_t, std::string> sparse;  ///< by key, likewise
  std::map<std::string, std::string> blobs;

  bool operator==(const Content&) const = default;
};

/// Differs from that of any other seed in all bytes that are no keys.
Content content_of(unsigned seed);

struct SampleOptions {
  std::uint64_t chunk_bytes = 60;
  std::uint64_t most_file_bytes = 400;
  int zstd_level = 0;
};

/// Where a sparse table's keys are: a number from 0 to 15.
constexpr std::uint64_t number_of_key(std::uint64_t key) {
  return key % 16;
}

/// Two servers, of which each has a half of the tables, and a worker with the blobs.
absl::StatusOr<std::vector<Part>> write_parts(FileSystem& files, const std::string& folder,
                                              std::uint64_t clock, const Content& content,
                                              const SampleOptions& options = {});
Manifest manifest_of(std::uint64_t clock, std::vector<Part> parts);
/// From begin() to commit(). Parts travel as descriptions.
absl::Status write_checkpoint(FileSystem& files, Folder& folder, std::uint64_t clock, const Content& content,
                              const SampleOptions& options = {});

/// An increment: what `content` has that `before`, the content of the checkpoint of clock `since`, has not,
/// in the same parts; also what keys it has no more.
absl::Status write_increment(FileSystem& files, Folder& folder, std::uint64_t clock, std::uint64_t since,
                             const Content& before, const Content& content,
                             const SampleOptions& options = {});
/// Checkpoints of the samples say that they are of this run.
constexpr std::uint64_t kSampleRun = 77;

/// What a reader of this part of the tables finds: dense rows `rows`, and keys whose numbers are in
/// `numbers`.
absl::StatusOr<Content> load(const Reader& reader, NumberRange rows, NumberRange numbers);
absl::StatusOr<Content> load(const Reader& reader);

}  // namespace verbena::checkpoint
