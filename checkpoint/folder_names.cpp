#include "checkpoint/folder_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/decimal.hpp"

namespace verbena::checkpoint {
namespace {

constexpr std::string_view kNameBegin = "ckpt-";

}  // namespace

std::string checkpoint_name(std::uint64_t clock, std::string_view ending) {
  return fmt::format("{}{}{}", kNameBegin, clock, ending);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name) {
  if (!name.starts_with(kNameBegin)) return std::nullopt;
  const std::size_t dot = std::min(name.find('.'), name.size());
  const auto clock =
      base::parse_decimal<std::uint64_t>(name.substr(kNameBegin.size(), dot - kNameBegin.size()));
  if (!clock) return std::nullopt;
  for (const std::string_view ending : {kWhole, kTmp, kOld, kGone}) {
    if (name == checkpoint_name(*clock, ending)) return CheckpointName{.clock = *clock, .ending = ending};
  }
  return std::nullopt;
}

std::string folder_above(const std::string& path) {
  const std::string above = std::filesystem::path(path).parent_path().string();
  return above.empty() ? "." : above;
}

std::string folder_of_checkpoint(const std::string& path) {
  std::filesystem::path place = std::filesystem::path(path).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // it ends in a slash
  std::error_code error;
  // A link may have a checkpoint's name, too, as that of the newest one has.
  const bool is_elsewhere =
      !parse_checkpoint_name(place.filename().string()) || std::filesystem::is_symlink(place, error);
  if (is_elsewhere) {
    const std::filesystem::path real = std::filesystem::canonical(place, error);
    if (!error) place = real;
  }
  return folder_above(place.string());
}

}  // namespace verbena::checkpoint
