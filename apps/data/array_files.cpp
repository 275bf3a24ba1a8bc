#include "apps/data/array_files.hpp"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

/// The data of both formats begin on such a boundary.
constexpr std::size_t kNpyAlignment = 64;
constexpr std::size_t kTensorAlignment = 8;

}  // namespace

std::uint64_t ArrayShape::bytes() const {
  std::uint64_t bytes = type.bytes;
  for (const std::uint64_t size : shape) bytes *= size;
  return bytes;
}

std::string npy_header(const ArrayShape& array) {
  // Version 1.0 may have a header of 64 kB.
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", array.type.npy,
                  absl::StrJoin(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
  const std::size_t before = kMagic.size() + sizeof(std::uint16_t);
  // The newline counts.
  const std::size_t whole = (before + header.size() + 1 + kNpyAlignment - 1) / kNpyAlignment * kNpyAlignment;
  header.resize(whole - before - 1, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  return std::string(kMagic) + std::string(as_text(std::as_bytes(std::span(&length, 1)))) + header;
}

absl::StatusOr<std::string> safetensors_header(std::span<const ArrayShape> arrays) {
  // In safetensors this name means something else.
  std::set<std::string> names = {"__metadata__"};
  nlohmann::json tensors = nlohmann::json::object();
  std::uint64_t offset = 0;
  for (const ArrayShape& array : arrays) {
    if (!names.insert(array.name).second) {
      return absl::InvalidArgumentError(
          base::printable(fmt::format("more than one tensor would have the name \"{}\"", array.name)));
    }
    tensors[array.name] = {{"dtype", array.type.safetensors},
                           {"shape", array.shape},
                           {"data_offsets", {offset, offset + array.bytes()}}};
    offset += array.bytes();
  }
  std::string text = tensors.dump();
  text.resize((text.size() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment, ' ');
  const std::uint64_t length = text.size();
  return std::string(as_text(std::as_bytes(std::span(&length, 1)))) + text;
}

std::string path_beside(std::string_view path, std::string_view ending, std::string_view new_ending) {
  if (path.ends_with(ending)) path.remove_suffix(ending.size());
  return fmt::format("{}{}", path, new_ending);
}

}  // namespace verbena::apps
