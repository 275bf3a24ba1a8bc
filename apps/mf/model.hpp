// The rows of a factorization: in memory, packed for a table, as text.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "apps/mf/kernel.hpp"

namespace verbena::apps::mf {

/// What the packed rows look like: `rank` factors, then the bias if there is one.
struct RowFormat {
  std::size_t rank = 1;
  bool biases = true;
  [[nodiscard]] std::size_t width() const { return rank + (biases ? 1 : 0); }
  [[nodiscard]] Shape shape() const { return {.padded_rank = padded(rank), .biases = biases}; }
};

/// Rows in the kernel's layout.
class FactorRows {
 public:
  FactorRows(std::size_t rows, const RowFormat& format);
  [[nodiscard]] Rows rows(std::size_t first = 0);
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const RowFormat& format() const { return format_; }
  /// Copies packed rows to, or from, rows [first, first + packed.size() / width).
  void unpack(std::span<const float> packed, std::size_t first = 0);
  void pack(std::span<float> packed, std::size_t first = 0) const;
  /// packed = these rows − packed.
  void difference(std::span<float> packed, std::size_t first = 0) const;

 private:
  RowFormat format_;
  std::size_t size_;
  std::size_t stride_;
  hwy::AlignedFreeUniquePtr<float[]> factors_;
  std::vector<float> biases_;
};

enum class Side : std::uint8_t { kUser, kItem };

/// The packed row that user or item `id` starts from: small random factors, no bias. It depends only on the
/// arguments, so that any worker can make it.
void initial_row(const RowFormat& format, std::uint64_t seed, Side side, std::uint64_t id,
                 std::span<float> packed);

/// How ratings are scaled for training: (r − mean) / deviation. Learning rate and regularization then mean
/// the same for stars from 1 to 5 and points from 0 to 100.
struct Scale {
  double mean = 0;
  double deviation = 1;
};

/// Reads the packed rows of ids [first, last).
using RowReader = std::function<absl::Status(std::size_t first, std::size_t last, std::span<float> packed)>;

/// Reads rows [0, rows) some at a time, and calls use(first, packed) with them in the units of the ratings.
/// FAILED_PRECONDITION: some numbers are none.
absl::Status for_saved_rows(
    const RowFormat& format, const Scale& scale, std::size_t rows, const RowReader& read,
    absl::FunctionRef<absl::Status(std::size_t first, std::span<const float> packed)> use);

std::string users_path(const std::string& prefix);
std::string items_path(const std::string& prefix);
/// Upper bound of a file's size.
std::uint64_t model_file_bytes(std::size_t rows, const RowFormat& format);

/// How the files write a name: with \\t for a tab.
std::string written_name(std::string_view name);
/// The first line of both files says how a rating is predicted, the second one names the columns; both
/// without the line's end. `what`: "user" or "item".
std::string model_head(double mean, bool biases);
std::string model_columns(const RowFormat& format, std::string_view what);

struct Names {
  const std::vector<std::string>& users;
  const std::vector<std::string>& items;
};
/// Writes both files, in the units of the input; each is there whole or not at all.
absl::Status save_model(const std::string& prefix, const RowFormat& format, const Scale& scale,
                        const Names& names, const RowReader& users, const RowReader& items);

}  // namespace verbena::apps::mf
