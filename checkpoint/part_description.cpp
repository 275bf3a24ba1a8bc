#include "checkpoint/part_description.hpp"

#include <fmt/format.h>

#include "base/return_if_error.hpp"
#include "checkpoint/manifest_json.hpp"

namespace verbena::checkpoint {
namespace {

constexpr std::string_view kDescriptionEnding = ".part";

std::string description_path(const std::string& folder, std::string_view part) {
  return fmt::format("{}/{}", folder, part_description_name(part));
}

}  // namespace

std::string part_description_name(std::string_view part) {
  return fmt::format("{}{}", part, kDescriptionEnding);
}

bool is_part_description_name(std::string_view name) {
  return name.ends_with(kDescriptionEnding) &&
         is_part_name(name.substr(0, name.size() - kDescriptionEnding.size()));
}

absl::Status describe_part(FileSystem& files, const std::string& folder, const Part& part) {
  RETURN_IF_ERROR(write_synced(files, description_path(folder, part.name), encode(part)));
  return files.sync_folder(folder);
}

absl::StatusOr<Part> read_part_description(FileSystem& files, const std::string& folder,
                                           std::string_view part) {
  const std::string path = description_path(folder, part);
  const absl::StatusOr<std::string> text = read_text(files, path, kMostManifestBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<Part> found = decode_part(*text);
  if (!found.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(found.status().message())));
  }
  if (found->name != part) {
    return absl::InvalidArgumentError(fmt::format("{}: expected part {}, found {}", path, part, found->name));
  }
  return found;
}

}  // namespace verbena::checkpoint
