// Dense ids of names, in the order of first appearance.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace verbena::apps {

class NameIds {
 public:
  /// New names are appended to `names`, which must outlive this object.
  explicit NameIds(std::vector<std::string>& names) : names_(names) {}
  /// nullopt when all ids are used up.
  std::optional<std::uint32_t> id(std::string_view name) {
    // Through a string because the distribution's Abseil has its own string_view.
    key_.assign(name);
    const auto found = ids_.find(key_);
    if (found != ids_.end()) return found->second;
    if (names_.size() >= std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
    const auto id = static_cast<std::uint32_t>(names_.size());
    ids_.emplace(key_, id);
    names_.push_back(key_);
    return id;
  }

 private:
  std::vector<std::string>& names_;
  absl::flat_hash_map<std::string, std::uint32_t> ids_;
  std::string key_;
};

}  // namespace verbena::apps
