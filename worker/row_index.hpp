// Where something of a row is kept, by row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace verbena::worker {

/// An array of zeros, one for each row, whose pages cost nothing until they are written.
using RowIndex = std::unique_ptr<std::uint32_t[], decltype(&std::free)>;

[[nodiscard]] inline RowIndex make_row_index(std::uint64_t rows) {
  auto* const index =
      static_cast<std::uint32_t*>(std::calloc(std::max<std::uint64_t>(rows, 1), sizeof(std::uint32_t)));
  if (index == nullptr) throw std::bad_alloc();
  return {index, &std::free};
}

}  // namespace verbena::worker
