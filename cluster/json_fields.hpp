// Short JSON objects without others in them, as processes of a job send them to each other, and what one has
// under a name, if it is of the kind that is expected.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::cluster {

/// What is no text in UTF-8 is replaced.
inline std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// nullopt: it is no such object, or too long. A peer may have written it.
inline std::optional<nlohmann::json> short_object(std::string_view text) {
  constexpr std::size_t kMostBytes = 16 << 10;
  if (text.size() > kMostBytes) return std::nullopt;
  // The parser's own limit of depth is the stack.
  const auto is_shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= 1;
  };
  nlohmann::json json = nlohmann::json::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

inline std::optional<std::string> text_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

inline std::optional<std::uint32_t> number_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto number = found->get<std::uint64_t>();
  if (number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

}  // namespace verbena::cluster
