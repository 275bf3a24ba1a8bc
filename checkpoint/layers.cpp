#include "checkpoint/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/return_if_error.hpp"
#include "checkpoint/folder_names.hpp"
#include "checkpoint/manifest_json.hpp"

namespace verbena::checkpoint {
namespace {

/// Whether `base` is what `layer` builds upon.
absl::Status check_base(const Layer& layer, const Layer& base) {
  const auto wrong = [&](std::string_view why) {
    return absl::DataLossError(fmt::format("{}: {}", base.path, why));
  };
  if (base.manifest.clock != *layer.manifest.since) {
    return wrong(fmt::format("expected clock {}, found {}", *layer.manifest.since, base.manifest.clock));
  }
  if (base.manifest.run != layer.manifest.run) return wrong("it was written by another run");
  for (const TableEntry& table : base.manifest.tables) {
    const auto same = std::ranges::find(layer.manifest.tables, table.number, &TableEntry::number);
    if (same == layer.manifest.tables.end() || same->name != table.name ||
        same->description != table.description) {
      return wrong(fmt::format("its table {} is another one", table.number));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Layer> read_base(FileSystem& files, const Layer& layer) {
  absl::Status first_error;
  // A base that is being replaced has its other name for a moment.
  for (const std::string_view ending : std::array{kWhole, kOld}) {
    Layer base{.path = fmt::format("{}/{}", folder_of_checkpoint(layer.path),
                                   checkpoint_name(*layer.manifest.since, ending)),
               .manifest = {}};
    absl::StatusOr<Manifest> manifest = read_manifest(files, base.path);
    absl::Status found = manifest.status();
    if (found.ok()) {
      base.manifest = *std::move(manifest);
      found = check_base(layer, base);
    }
    if (found.ok()) return base;
    first_error.Update(found);
  }
  return absl::Status(
      first_error.code(),
      fmt::format("{} holds only what has changed since {}, which cannot be read: {}", layer.path,
                  checkpoint_name(*layer.manifest.since, kWhole), std::string(first_error.message())));
}

}  // namespace

absl::StatusOr<Manifest> read_manifest(FileSystem& files, const std::string& path) {
  const std::string name = fmt::format("{}/{}", path, kManifestName);
  const absl::StatusOr<std::string> text = read_text(files, name, kMostManifestBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<Manifest> manifest = decode_manifest(*text);
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(),
                        fmt::format("{}: {}", name, std::string(manifest.status().message())));
  }
  return manifest;
}

absl::Status read_layers(FileSystem& files, const std::string& path, std::vector<Layer>& layers) {
  absl::StatusOr<Manifest> manifest = read_manifest(files, path);
  if (!manifest.ok()) return manifest.status();
  layers.push_back({.path = path, .manifest = *std::move(manifest)});
  // It ends: check() sees to it that a base is older.
  while (layers.back().manifest.since) {
    absl::StatusOr<Layer> base = read_base(files, layers.back());
    if (!base.ok()) return base.status();
    layers.push_back(*std::move(base));
  }
  return absl::OkStatus();
}

}  // namespace verbena::checkpoint
