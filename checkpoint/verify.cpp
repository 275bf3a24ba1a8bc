#include "checkpoint/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/checksum.hpp"
#include "checkpoint/chunk_reader.hpp"
#include "checkpoint/layers.hpp"
#include "checkpoint/manifest.hpp"

namespace verbena::checkpoint {
namespace {

std::string advice_for(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnimplemented:
      return "read it with a later version of the program";
    case absl::StatusCode::kNotFound:
      return "put the file back if it was moved; otherwise take an older checkpoint";
    case absl::StatusCode::kPermissionDenied:
      return "read it as the user who wrote it";
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInvalidArgument:
      return "take an older checkpoint, or put back a copy of the file";
    default:
      return "look at the disk, and try again";
  }
}

class Verification {
 public:
  Verification(FileSystem& files, absl::FunctionRef<void(std::uint64_t)> progress)
      : files_(files), progress_(progress) {}

  void examine(const Layer& layer) {
    for (const Part& part : layer.manifest.parts) {
      for (const DataFile& file : part.files)
        examine(fmt::format("{}/{}", layer.path, file.name), file, layer.manifest.clock);
    }
  }
  void examine(const std::string& path, const DataFile& entry, std::uint64_t clock) {
    const auto file = files_.open(path);
    if (!file.ok()) return add(path, 0, file.status());
    const std::size_t before = damages_.size();
    add(path, 0, check_file_header(**file, clock));
    if ((*file)->bytes() != entry.bytes) {
      add(path, std::min((*file)->bytes(), entry.bytes),
          absl::DataLossError(fmt::format("expected {} bytes, found {}", entry.bytes, (*file)->bytes())));
    }
    Checksum checksum;
    add_header(**file, checksum);
    for (const ChunkEntry& chunk : entry.chunks) {
      add(path, chunk.offset, reader_.read(**file, chunk).status());
      checksum.add(reader_.stored());
      progress_(examined_ + chunk.offset + chunk.bytes);
    }
    examined_ += entry.bytes;
    // Whatever is wrong with a part of it makes the whole file's checksum wrong, too.
    if (damages_.size() == before && checksum.value() != entry.checksum) {
      add(path, 0,
          absl::DataLossError(fmt::format("expected the checksum {} of the file, found {}",
                                          checksum_text(entry.checksum), checksum_text(checksum.value()))));
    }
  }
  void add(std::string path, std::uint64_t offset, const absl::Status& status) {
    if (status.ok()) return;
    std::string what(status.message());
    if (what.starts_with(path + ": ")) what.erase(0, path.size() + 2);
    damages_.push_back({.path = std::move(path),
                        .offset = offset,
                        .what = std::move(what),
                        .advice = advice_for(status.code())});
  }
  std::vector<Damage> take() { return std::move(damages_); }

 private:
  static void add_header(const ReadableFile& file, Checksum& checksum) {
    FileHeader header;
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&header, 1));
    if (file.bytes() >= bytes.size() && file.read(0, bytes).ok()) checksum.add(bytes);
  }

  FileSystem& files_;
  absl::FunctionRef<void(std::uint64_t)> progress_;
  std::uint64_t examined_ = 0;  ///< bytes of files before the one at hand
  ChunkReader reader_;
  std::vector<Damage> damages_;
};

/// `most_layers`: of those that can be read, the newest.
std::vector<Damage> verify_layers(FileSystem& files, const std::string& path, std::size_t most_layers,
                                  absl::FunctionRef<void(std::uint64_t)> progress) {
  std::vector<Layer> layers;
  const absl::Status read = read_layers(files, path, layers);
  Verification verification(files, progress);
  for (std::size_t i = 0; i < std::min(most_layers, layers.size()); ++i) verification.examine(layers[i]);
  // Of what has no sound manifest nobody knows what there should be.
  verification.add(fmt::format("{}/{}", path, kManifestName), 0, read);
  return verification.take();
}

}  // namespace

std::string to_string(const Damage& damage) {
  return fmt::format("{}: offset {}: {} ({})", damage.path, damage.offset, damage.what, damage.advice);
}

std::vector<Damage> verify(FileSystem& files, const std::string& path,
                           absl::FunctionRef<void(std::uint64_t)> progress) {
  return verify_layers(files, path, SIZE_MAX, progress);
}

std::vector<Damage> verify_alone(FileSystem& files, const std::string& path,
                                 absl::FunctionRef<void(std::uint64_t)> progress) {
  return verify_layers(files, path, 1, progress);
}

}  // namespace verbena::checkpoint
