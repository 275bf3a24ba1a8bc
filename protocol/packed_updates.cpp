#include "protocol/packed_updates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

namespace verbena::protocol {
namespace {

using Form = PackedHeader::Form;
using Names = PackedHeader::Names;

constexpr std::size_t kMostDistanceBytes = 6;  // of 7 bits: more than kMaxRows
constexpr std::size_t kBodyBegin = sizeof(BulkHeader) + sizeof(PackedHeader);
/// A frame must be shorter than the body by this part of it, or it is not worth decompressing.
constexpr std::size_t kLeastSavedPart = 32;

/// 0: values of this type have no such form.
constexpr std::size_t form_bytes(Form form, ValueType type) {
  switch (form) {
    case Form::kWhole:
      return value_bytes(type);
    case Form::kFloat:
      return type == ValueType::kDouble ? sizeof(float) : 0;
    case Form::kBfloat:
      return is_whole(type) ? 0 : 2;
    case Form::kInt16:
      return is_whole(type) ? 2 : 0;
    case Form::kInt8:
      return 1;
  }
  return 0;
}

template <class Value>
using Bits = std::conditional_t<sizeof(Value) == 4, std::uint32_t, std::uint64_t>;

/// The same value, and the same zero.
template <class Value>
bool is_same(Value a, Value b) {
  return std::bit_cast<Bits<Value>>(a) == std::bit_cast<Bits<Value>>(b);
}

template <class Value>
Value scaled(std::int8_t number, float scale) {
  if constexpr (std::is_integral_v<Value>) {
    return number;
  } else {
    return static_cast<Value>(number) * static_cast<Value>(scale);
  }
}

template <class Value>
std::int8_t number_of(Value value, float scale) {
  if constexpr (std::is_integral_v<Value>) {
    return static_cast<std::int8_t>(value);
  } else {
    return static_cast<std::int8_t>(std::nearbyint(value / static_cast<Value>(scale)));
  }
}

/// The forms in which all values that were looked at can be written without a change.
template <class Value>
class Fitting {
 public:
  explicit Fitting(float scale) : scale_(scale), int8_(std::is_integral_v<Value> || scale > 0) {}

  void look_at(Value value) {
    if (std::bit_cast<Bits<Value>>(value) != 0) ++nonzero;
    if constexpr (std::is_integral_v<Value>) {
      int8_ = int8_ && value >= INT8_MIN && value <= INT8_MAX;
      int16_ = int16_ && value >= INT16_MIN && value <= INT16_MAX;
    } else {
      if (int8_) {
        // False for what is not a number.
        int8_ = std::abs(value) <= 127 * static_cast<Value>(scale_) &&
                is_same(scaled<Value>(number_of(value, scale_), scale_), value);
      }
      if (!float_) return;
      const auto narrow = static_cast<float>(value);
      float_ = is_same(static_cast<Value>(narrow), value);
      bfloat_ = bfloat_ && (std::bit_cast<std::uint32_t>(narrow) & 0xffff) == 0;
    }
  }

  [[nodiscard]] Form shortest() const {
    if (int8_) return Form::kInt8;
    if constexpr (std::is_integral_v<Value>) return int16_ ? Form::kInt16 : Form::kWhole;
    if (bfloat_ && float_) return Form::kBfloat;
    return sizeof(Value) > sizeof(float) && float_ ? Form::kFloat : Form::kWhole;
  }

  std::uint64_t nonzero = 0;

 private:
  float scale_;
  bool int8_;
  bool int16_ = true;
  bool float_ = true;
  bool bfloat_ = true;
};

/// What a value is written as.
template <class Value, Form form>
auto shortened(Value value, [[maybe_unused]] float scale) {
  if constexpr (form == Form::kFloat) return static_cast<float>(value);
  if constexpr (form == Form::kBfloat)
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
  if constexpr (form == Form::kInt16) return static_cast<std::int16_t>(value);
  if constexpr (form == Form::kInt8) return number_of(value, scale);
  if constexpr (form == Form::kWhole) return value;
}

/// The other way round.
template <class Value, Form form>
Value restored(const std::byte* from, [[maybe_unused]] float scale) {
  decltype(shortened<Value, form>(Value{}, scale)) as;
  std::memcpy(&as, from, sizeof as);
  if constexpr (form == Form::kBfloat)
    return static_cast<Value>(std::bit_cast<float>(std::uint32_t{as} << 16));
  if constexpr (form == Form::kInt8) return scaled<Value>(as, scale);
  return static_cast<Value>(as);
}

/// Calls visit.operator()<form>() with a constant: so a loop over values need not ask for their form.
template <class Visitor>
void visit_form(Form form, Visitor&& visit) {
  switch (form) {
    case Form::kWhole:
      return visit.template operator()<Form::kWhole>();
    case Form::kFloat:
      return visit.template operator()<Form::kFloat>();
    case Form::kBfloat:
      return visit.template operator()<Form::kBfloat>();
    case Form::kInt16:
      return visit.template operator()<Form::kInt16>();
    case Form::kInt8:
      return visit.template operator()<Form::kInt8>();
  }
}

std::byte* write_distance(std::uint64_t distance, std::byte* to) {
  for (; distance >= 0x80; distance >>= 7) *to++ = static_cast<std::byte>(distance | 0x80);
  *to++ = static_cast<std::byte>(distance);
  return to;
}

std::size_t distance_length(std::uint64_t distance) {
  return std::max<std::size_t>((static_cast<std::size_t>(std::bit_width(distance)) + 6) / 7, 1);
}

template <class Value, class Named>
std::optional<std::size_t> pack_as(ValueType type, std::uint32_t width, std::vector<Named>& rows,
                                   const std::vector<Named>& keys, BulkHeader header, PackedHeader packed,
                                   std::span<std::byte> to) {
  std::sort(rows.begin(), rows.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  const auto for_each_value = [&](const auto& use) {
    for (const auto* const those : {static_cast<const std::vector<Named>*>(&rows), &keys}) {
      for (const Named& one : *those) {
        for (std::uint32_t i = 0; i < width; ++i) {
          Value value;
          std::memcpy(&value, one.values + i * sizeof value, sizeof value);
          use(value);
        }
      }
    }
  };
  Fitting<Value> fitting(packed.scale);
  for_each_value([&](Value value) { fitting.look_at(value); });
  const std::size_t count = rows.size() + keys.size();
  const std::size_t values = count * width;
  header.kind = BulkKind::kPackedUpdates;
  header.count = static_cast<std::uint32_t>(count);
  packed.form = fitting.shortest();
  packed.by_row = static_cast<std::uint32_t>(rows.size());
  const std::size_t value_size = form_bytes(packed.form, type);
  const std::size_t zeros_bytes = (values + 7) / 8;
  packed.has_zeros = zeros_bytes + fitting.nonzero * value_size < values * value_size ? 1 : 0;
  std::uint64_t least = 0;
  for (const Named& one : rows) {
    packed.distance_bytes += static_cast<std::uint32_t>(distance_length(one.name - least));
    least = one.name + 1;
  }
  const std::size_t key_bytes = packed.names == Names::kList ? 0 : keys.size() * sizeof(Key);
  const std::size_t length =
      sizeof header + sizeof packed + key_bytes + packed.distance_bytes +
      (packed.has_zeros != 0 ? zeros_bytes + fitting.nonzero * value_size : values * value_size);
  if (length > to.size()) return std::nullopt;

  std::byte* at = to.data();
  const auto put = [&](const auto& what) {
    std::memcpy(at, &what, sizeof what);
    at += sizeof what;
  };
  put(header);
  put(packed);
  if (packed.names != Names::kList) {
    for (const Named& one : keys) put(one.name);
  }
  least = 0;
  for (const Named& one : rows) {
    at = write_distance(one.name - least, at);
    least = one.name + 1;
  }
  std::byte* const zeros = at;
  if (packed.has_zeros != 0) {
    std::memset(zeros, 0, zeros_bytes);
    at += zeros_bytes;
  }
  visit_form(packed.form, [&]<Form form>() {
    std::size_t i = 0;
    for_each_value([&](Value value) {
      if (packed.has_zeros == 0) return put(shortened<Value, form>(value, packed.scale));
      if (std::bit_cast<Bits<Value>>(value) != 0) {
        zeros[i / 8] |= std::byte{1} << (i % 8);
        put(shortened<Value, form>(value, packed.scale));
      }
      ++i;
    });
  });
  return length;
}

}  // namespace

// ---- writing

void UpdatePacker::clear() {
  rows_.clear();
  keys_.clear();
}

std::optional<std::size_t> UpdatePacker::pack(BulkHeader header, PackedHeader packed,
                                              std::span<std::byte> to) {
  return visit_value_type(
      type_, [&]<class Value>() { return pack_as<Value>(type_, width_, rows_, keys_, header, packed, to); });
}

std::size_t compress_packed(std::span<std::byte> message, base::Compressor& compressor) {
  const std::span<std::byte> body = message.subspan(kBodyBegin);
  const std::size_t saved = body.size() / kLeastSavedPart + 1;
  if (body.size() <= saved) return message.size();
  const std::span<const std::byte> frame = compressor.compress(body, body.size() - saved);
  if (frame.empty()) return message.size();
  const auto body_bytes = static_cast<std::uint32_t>(body.size());
  std::memcpy(message.data() + sizeof(BulkHeader) + offsetof(PackedHeader, body_bytes), &body_bytes,
              sizeof body_bytes);
  std::memcpy(body.data(), frame.data(), frame.size());
  return kBodyBegin + frame.size();
}

// ---- reading

absl::StatusOr<PackedUpdates> PackedUpdates::read(const BulkMessage& message, ValueType type,
                                                  std::uint32_t width, base::Decompressor& decompressor) {
  PackedUpdates updates;
  std::span<const std::byte> rest = message.payload;
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        fmt::format("{} packed updates in {} bytes", message.header.count, message.payload.size()));
  };
  if (rest.size() < sizeof(PackedHeader)) return wrong();
  const PackedHeader header = base::load_once<PackedHeader>(rest.data());
  rest = rest.subspan(sizeof header);
  updates.header_ = header;
  updates.type_ = type;
  updates.width_ = width;
  updates.count_ = message.header.count;
  const std::size_t value_size = header.form <= Form::kInt8 ? form_bytes(header.form, type) : 0;
  const std::size_t records_bytes = updates.count_ * record_bytes(row_stride_bytes(type, width));
  if (header.names > Names::kList || value_size == 0 || header.has_zeros > 1 || header.is_ahead > 1 ||
      header.list >= kMaxKeyLists || header.by_row > updates.count_ ||
      (header.names != Names::kRowsAndKeys && header.by_row != 0) || updates.count_ == 0 ||
      records_bytes > kMaxUnpackedBytes) {
    return wrong();
  }
  if (header.body_bytes > records_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} packed updates in {} bytes before compression, expected at most {}", updates.count_,
                    header.body_bytes, records_bytes));
  }
  if (header.body_bytes > 0) {
    const auto body = decompressor.decompress(rest, header.body_bytes);
    if (!body) {
      return absl::InvalidArgumentError(
          fmt::format("{} packed updates in {} bytes, which are no zstd frame that holds {}", updates.count_,
                      rest.size(), header.body_bytes));
    }
    rest = *body;
  }
  const auto take = [&](std::size_t bytes) -> std::optional<std::span<const std::byte>> {
    if (bytes > rest.size()) return std::nullopt;
    const std::span<const std::byte> taken = rest.first(bytes);
    rest = rest.subspan(bytes);
    return taken;
  };
  updates.keys_ = header.names == Names::kList ? 0 : updates.count_ - header.by_row;
  const std::size_t values = std::size_t{updates.count_} * width;
  const auto keys = take(updates.keys_ * sizeof(Key));
  const auto distances = take(header.distance_bytes);
  const auto zeros = take(header.has_zeros != 0 ? (values + 7) / 8 : 0);
  if (!keys || !distances || !zeros) return wrong();
  std::size_t there = values;
  if (header.has_zeros != 0) {
    there = 0;
    for (const std::byte bits : *zeros)
      there += static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(bits)));
  }
  if (rest.size() != there * value_size) return wrong();
  updates.key_bytes_ = keys->data();
  updates.distances_ = *distances;
  updates.zeros_ = *zeros;
  updates.values_ = rest;
  return updates;
}

Key PackedUpdates::key(std::uint32_t i) const {
  return base::load_once<Key>(key_bytes_ + i * sizeof(Key));
}

std::optional<std::uint64_t> PackedUpdates::next_row() {
  std::uint64_t distance = 0;
  for (std::size_t i = 0; i < std::min(distances_.size(), kMostDistanceBytes); ++i) {
    // Loaded once, as base/peer_memory.hpp says.
    const std::uint64_t bits =
        __atomic_load_n(reinterpret_cast<const std::uint8_t*>(&distances_[i]), __ATOMIC_RELAXED);
    distance |= (bits & 0x7f) << (7 * i);
    if ((bits & 0x80) != 0) continue;
    distances_ = distances_.subspan(i + 1);
    const std::uint64_t row = least_row_ + distance;
    least_row_ = row + 1;
    return row;
  }
  return std::nullopt;
}

void PackedUpdates::next_values(std::uint32_t updates, std::byte* to, std::size_t distance_bytes) {
  visit_value_type(type_, [&]<class Value>() {
    visit_form(header_.form, [&]<Form form>() {
      const std::size_t value_size = form_bytes(form, type_);
      const std::byte* from = values_.data();
      const std::byte* const end = from + values_.size();
      std::uint64_t bit = next_value_;
      const auto next = [&]() -> Value {
        if (!zeros_.empty()) {
          const bool is_zero = (zeros_[bit / 8] >> (bit % 8) & std::byte{1}) == std::byte{0};
          ++bit;
          if (is_zero) return 0;
          // These bits may have changed since they were counted.
          if (static_cast<std::size_t>(end - from) < value_size) [[unlikely]]
            return 0;
        }
        const Value value = restored<Value, form>(from, header_.scale);
        from += value_size;
        return value;
      };
      for (std::uint32_t i = 0; i < updates; ++i) {
        for (std::uint32_t j = 0; j < width_; ++j) {
          const Value value = next();
          std::memcpy(to + i * distance_bytes + j * sizeof value, &value, sizeof value);
        }
      }
      values_ = {from, end};
      next_value_ = bit;
    });
  });
}

}  // namespace verbena::protocol
