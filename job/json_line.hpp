// JSON objects as lines, and what is in them: the library throws if a value is of another type than expected,
// and what the other end has written may be anything.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace verbena::job {

inline std::string line_of(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

inline bool has(const nlohmann::json& object, const char* name) {
  return object.is_object() && object.contains(name);
}

inline std::optional<std::uint32_t> number_in(const nlohmann::json& object, const char* name) {
  if (!has(object, name) || !object[name].is_number_unsigned()) return std::nullopt;
  const auto number = object[name].get<std::uint64_t>();
  return std::in_range<std::uint32_t>(number) ? std::optional(static_cast<std::uint32_t>(number))
                                              : std::nullopt;
}

inline std::optional<std::string> text_in(const nlohmann::json& object, const char* name) {
  if (!has(object, name) || !object[name].is_string()) return std::nullopt;
  return object[name].get<std::string>();
}

}  // namespace verbena::job
