#include "apps/inspect/columns.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::apps::inspect {
namespace {

constexpr double kMegabyte = 1e6;

}  // namespace

std::string in_columns(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string shown;
    for (std::size_t i = 0; i < line.size(); ++i) {
      shown +=
          i == 0 ? fmt::format("{:<{}}", line[i], widths[i]) : fmt::format("  {:>{}}", line[i], widths[i]);
    }
    text += shown.substr(0, shown.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / kMegabyte);
}

}  // namespace verbena::apps::inspect
