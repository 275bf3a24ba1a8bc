// Arrays of numbers as files that other programs read: NumPy's .npy, version 1.0
// (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), and safetensors
// (github.com/huggingface/safetensors). Both are a header, and then the numbers as they are in memory, with
// the last index running fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace verbena::apps {

/// How the formats name a type of number.
struct ElementType {
  std::string_view npy;
  std::string_view safetensors;
  std::size_t bytes = 0;
};
inline constexpr ElementType kFloatElement = {.npy = "<f4", .safetensors = "F32", .bytes = 4};
inline constexpr ElementType kDoubleElement = {.npy = "<f8", .safetensors = "F64", .bytes = 8};
inline constexpr ElementType kInt32Element = {.npy = "<i4", .safetensors = "I32", .bytes = 4};
inline constexpr ElementType kInt64Element = {.npy = "<i8", .safetensors = "I64", .bytes = 8};
inline constexpr ElementType kUint64Element = {.npy = "<u8", .safetensors = "U64", .bytes = 8};

/// What a header says of an array.
struct ArrayShape {
  std::string name;  ///< in safetensors
  ElementType type;
  std::vector<std::uint64_t> shape;
  [[nodiscard]] std::uint64_t bytes() const;  ///< of the numbers
};

/// The numbers begin at a multiple of 64 bytes.
std::string npy_header(const ArrayShape& array);

/// The numbers of the arrays follow one another. Put those of longer types first: then each begins where its
/// type may. INVALID_ARGUMENT: two arrays would have the same name, or one that means something else.
absl::StatusOr<std::string> safetensors_header(std::span<const ArrayShape> arrays);

/// Numbers as they are in memory, for OutputFile.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string_view as_text(std::span<const float> numbers) {
  return as_text(std::as_bytes(numbers));
}

inline constexpr std::string_view kNpyEnding = ".npy";
inline constexpr std::string_view kSafetensorsEnding = ".safetensors";

/// The name of a second file beside `path`: "a.keys.npy" for "a.npy", its `ending` and ".keys.npy".
std::string path_beside(std::string_view path, std::string_view ending, std::string_view new_ending);

}  // namespace verbena::apps
