#include "apps/data/distinct_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace verbena::apps {
namespace {

constexpr int kMostLinks = 40;  // the limit of Linux

/// What is equal for two names of one file.
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;  ///< of the file; of its folder, if the file does not exist yet
  std::string name;         ///< in that folder

  bool operator==(const Identity&) const = default;
};

/// The path to which a symbolic link leads if there is no file yet.
std::filesystem::path target_of(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; links < kMostLinks; ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

/// nullopt for devices and sockets: they take any number of writers, or are refused elsewhere.
std::optional<Identity> identity_of(const std::string& path) {
  struct stat file = {};
  if (::stat(path.c_str(), &file) == 0) {
    if (S_ISCHR(file.st_mode) || S_ISSOCK(file.st_mode)) return std::nullopt;
    return Identity{file.st_dev, file.st_ino, {}};
  }
  const std::filesystem::path target = target_of(path);
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (::stat(folder.c_str(), &file) != 0) {
    // The folder does not exist yet.
    std::error_code error;
    return Identity{0, 0, std::filesystem::absolute(target, error).lexically_normal().string()};
  }
  return Identity{file.st_dev, file.st_ino, target.filename().string()};
}

bool are_one(const NamedFile& one, const NamedFile& other) {
  const std::optional<Identity> identity = identity_of(one.path);
  return identity && identity == identity_of(other.path);
}

}  // namespace

absl::Status check_distinct(const Files& files) {
  for (auto output = files.outputs.begin(); output != files.outputs.end(); ++output) {
    for (const NamedFile& input : files.inputs) {
      if (!are_one(*output, input)) continue;
      return absl::InvalidArgumentError(fmt::format("{}: {} would be written over {}, which {} reads",
                                                    output->option, output->path, input.path, input.option));
    }
    for (auto other = files.outputs.begin(); other != output; ++other) {
      if (!are_one(*output, *other)) continue;
      return absl::InvalidArgumentError(fmt::format("{}: {} is the same file as {}, which {} writes",
                                                    output->option, output->path, other->path,
                                                    other->option));
    }
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps
