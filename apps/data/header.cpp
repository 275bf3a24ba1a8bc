#include "apps/data/header.hpp"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"

namespace verbena::apps {

bool is_one_of(std::string_view column, std::span<const std::string_view> names) {
  std::string plain(column.substr(0, column.find(':')));
  absl::AsciiStrToLower(&plain);
  std::erase_if(plain, [](char c) { return c == '_' || c == '-' || c == '.' || c == ' '; });
  return std::find(names.begin(), names.end(), plain) != names.end();
}

}  // namespace verbena::apps
