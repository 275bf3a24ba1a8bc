// The number types that a table may hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace verbena {

enum class ValueType : std::uint32_t { kFloat = 1, kDouble = 2, kInt32 = 3, kInt64 = 4 };

template <class Value>
constexpr ValueType value_type_of() {
  if constexpr (std::is_same_v<Value, float>) return ValueType::kFloat;
  if constexpr (std::is_same_v<Value, double>) return ValueType::kDouble;
  if constexpr (std::is_same_v<Value, std::int32_t>) return ValueType::kInt32;
  static_assert(std::is_same_v<Value, float> || std::is_same_v<Value, double> ||
                    std::is_same_v<Value, std::int32_t> || std::is_same_v<Value, std::int64_t>,
                "a table holds float, double, int32_t or int64_t");
  return ValueType::kInt64;
}

/// 0 for a number that names no type.
constexpr std::size_t value_bytes(ValueType type) {
  switch (type) {
    case ValueType::kFloat:
    case ValueType::kInt32:
      return 4;
    case ValueType::kDouble:
    case ValueType::kInt64:
      return 8;
  }
  return 0;
}

/// The name as in C++.
constexpr const char* name_of(ValueType type) {
  switch (type) {
    case ValueType::kFloat:
      return "float";
    case ValueType::kDouble:
      return "double";
    case ValueType::kInt32:
      return "int32_t";
    case ValueType::kInt64:
      return "int64_t";
  }
  return "no type";
}

constexpr bool is_whole(ValueType type) {
  return type == ValueType::kInt32 || type == ValueType::kInt64;
}

/// Calls visit.template operator()<Value>() with the C++ type that `type` names.
template <class Visitor>
decltype(auto) visit_value_type(ValueType type, Visitor&& visit) {
  switch (type) {
    case ValueType::kFloat:
      return visit.template operator()<float>();
    case ValueType::kDouble:
      return visit.template operator()<double>();
    case ValueType::kInt32:
      return visit.template operator()<std::int32_t>();
    case ValueType::kInt64:
      break;
  }
  return visit.template operator()<std::int64_t>();
}

}  // namespace verbena
