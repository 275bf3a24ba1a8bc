#include "apps/mf/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <utility>

#include "apps/data/output_file.hpp"
#include "apps/data/random.hpp"
#include "apps/divergence.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::mf {
namespace {

constexpr double kInitialDeviation = 0.1;  // of p · q's parts together, in standard deviations of the ratings
constexpr std::size_t kRowsAtOnce = 1024;
constexpr std::size_t kBytesPerNumber = 16;  // "-1.17549435e-38" and a tab
constexpr std::size_t kBytesPerName = 64;

std::string header(const RowFormat& format, const Scale& scale, std::string_view what) {
  return model_head(scale.mean, format.biases) + "\n" + model_columns(format, what) + "\n";
}

void append_row(fmt::memory_buffer& text, const RowFormat& format, std::string_view name,
                std::span<const float> packed) {
  text.append(written_name(name));
  const auto out = std::back_inserter(text);
  if (format.biases) fmt::format_to(out, "\t{}", packed[format.rank]);
  for (const float factor : packed.first(format.rank)) fmt::format_to(out, "\t{}", factor);
  text.push_back('\n');
}

absl::Status write_rows(OutputFile& file, const RowFormat& format, const Scale& scale,
                        const std::vector<std::string>& names, const RowReader& read) {
  const std::size_t width = format.width();
  return for_saved_rows(format, scale, names.size(), read,
                        [&](std::size_t first, std::span<const float> packed) {
                          fmt::memory_buffer text;
                          for (std::size_t row = 0; row < packed.size() / width; ++row)
                            append_row(text, format, names[first + row], packed.subspan(row * width, width));
                          file.write({text.data(), text.size()});
                          return file.status();
                        });
}

}  // namespace

FactorRows::FactorRows(std::size_t rows, const RowFormat& format)
    : format_(format),
      size_(rows),
      stride_(padded(format.rank)),
      factors_(aligned_floats(rows * stride_)),
      biases_(format.biases ? rows : 0) {}

Rows FactorRows::rows(std::size_t first) {
  return {factors_.get() + first * stride_, format_.biases ? biases_.data() + first : nullptr};
}

void FactorRows::unpack(std::span<const float> packed, std::size_t first) {
  const std::size_t width = format_.width();
  for (std::size_t row = 0; row < packed.size() / width; ++row) {
    const float* from = packed.data() + row * width;
    std::copy_n(from, format_.rank, factors_.get() + (first + row) * stride_);
    if (format_.biases) biases_[first + row] = from[format_.rank];
  }
}

void FactorRows::pack(std::span<float> packed, std::size_t first) const {
  const std::size_t width = format_.width();
  for (std::size_t row = 0; row < packed.size() / width; ++row) {
    float* to = packed.data() + row * width;
    std::copy_n(factors_.get() + (first + row) * stride_, format_.rank, to);
    if (format_.biases) to[format_.rank] = biases_[first + row];
  }
}

void FactorRows::difference(std::span<float> packed, std::size_t first) const {
  const std::size_t width = format_.width();
  for (std::size_t row = 0; row < packed.size() / width; ++row) {
    float* to = packed.data() + row * width;
    const float* now = factors_.get() + (first + row) * stride_;
    for (std::size_t k = 0; k < format_.rank; ++k) to[k] = now[k] - to[k];
    if (format_.biases) to[format_.rank] = biases_[first + row] - to[format_.rank];
  }
}

void initial_row(const RowFormat& format, std::uint64_t seed, Side side, std::uint64_t id,
                 std::span<float> packed) {
  assert(packed.size() == format.width());
  std::fill(packed.begin(), packed.end(), 0.0F);
  // A uniform distribution on [−√3, √3) has deviation 1.
  const double scale = std::sqrt(3.0) * kInitialDeviation / std::sqrt(static_cast<double>(format.rank));
  const std::size_t row = 2 * id + (side == Side::kItem ? 1 : 0);
  for (std::size_t k = 0; k < format.rank; ++k)
    packed[k] = static_cast<float>(random_number(mix(seed), row, k) * scale);
}

absl::Status for_saved_rows(
    const RowFormat& format, const Scale& scale, std::size_t rows, const RowReader& read,
    absl::FunctionRef<absl::Status(std::size_t first, std::span<const float> packed)> use) {
  const auto factor_scale = static_cast<float>(std::sqrt(scale.deviation));
  const auto bias_scale = static_cast<float>(scale.deviation);
  std::vector<float> packed;
  for (std::size_t first = 0; first < rows; first += kRowsAtOnce) {
    const std::size_t last = std::min(first + kRowsAtOnce, rows);
    packed.resize((last - first) * format.width());
    RETURN_IF_ERROR(read(first, last, packed));
    if (!all_finite(packed)) return diverged(fmt::format("the factors are not written: {}", kNoNumbers));
    for (std::size_t at = 0; at < packed.size(); at += format.width()) {
      for (std::size_t k = 0; k < format.rank; ++k) packed[at + k] *= factor_scale;
      if (format.biases) packed[at + format.rank] *= bias_scale;
    }
    RETURN_IF_ERROR(use(first, packed));
  }
  return absl::OkStatus();
}

std::string users_path(const std::string& prefix) {
  return prefix + ".users.tsv";
}
std::string items_path(const std::string& prefix) {
  return prefix + ".items.tsv";
}

std::string written_name(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == '\t') {
      text += "\\t";
    } else {
      text += c;
    }
  }
  return text;
}

std::string model_head(double mean, bool biases) {
  return fmt::format("# rating = {}{} + user factors * item factors", mean,
                     biases ? " + user bias + item bias" : "");
}

std::string model_columns(const RowFormat& format, std::string_view what) {
  std::string text(what);
  if (format.biases) text += "\tbias";
  for (std::size_t k = 1; k <= format.rank; ++k) text += fmt::format("\tfactor{}", k);
  return text;
}

std::uint64_t model_file_bytes(std::size_t rows, const RowFormat& format) {
  return rows * (kBytesPerName + format.width() * kBytesPerNumber);
}

absl::Status save_model(const std::string& prefix, const RowFormat& format, const Scale& scale,
                        const Names& names, const RowReader& users, const RowReader& items) {
  absl::StatusOr<OutputFile> user_file = OutputFile::create(users_path(prefix));
  if (!user_file.ok()) return user_file.status();
  absl::StatusOr<OutputFile> item_file = OutputFile::create(items_path(prefix));
  if (!item_file.ok()) return item_file.status();
  user_file->write(header(format, scale, "user"));
  item_file->write(header(format, scale, "item"));
  RETURN_IF_ERROR(write_rows(*user_file, format, scale, names.users, users));
  RETURN_IF_ERROR(write_rows(*item_file, format, scale, names.items, items));
  RETURN_IF_ERROR(user_file->commit());
  return item_file->commit();
}

}  // namespace verbena::apps::mf
