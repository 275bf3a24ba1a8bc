// Updates of one lane's rows in few bytes: what follows the header of a BulkKind::kPackedUpdates. The
// encodings are lossless; what may be lost, worker/fixed/push_filter.hpp decides before.
//
//   PackedHeader
//   keys          of the updates that are named by them, 8 bytes each
//   distances     of the updates that are named by their row's number in the lane's part, which come first,
//                 in ascending order: each number minus the least that it could be, 7 bits a byte, the lowest
//                 first; the highest bit says that more follow
//   zeros         if `has_zeros`: a bit for each value, the lowest first, 1 if the value is not zero
//   values        in one form, without those that the bits say are zero
//
// All that follows the PackedHeader is the message's body. It may be compressed as a whole
// (base/compression.hpp).
//
// A list of keys that is sent again and again is sent once and given a number (Li et al., OSDI'14, section
// 3.3, "key caching"; there it is known by a hash). Numbers are the worker's to give, so both sides always
// agree on what is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/compression.hpp"
#include "protocol/messages.hpp"
#include <verbena/keys.hpp>
#include <verbena/value_type.hpp>

namespace verbena::protocol {

constexpr std::uint32_t kMaxKeyLists = 65'536;                    ///< of a worker, for a lane of a table
constexpr std::uint64_t kMaxListedKeys = std::uint64_t{1} << 24;  ///< in all of them together
constexpr std::size_t kMaxUnpackedBytes = kMaxRingBytes / 8;      ///< of a message's records

struct PackedHeader {
  enum class Names : std::uint8_t {
    kRowsAndKeys = 0,
    kNewList = 1,  ///< keys, which are list `list` from now on
    kList = 2,     ///< nothing: those of list `list`
  };
  enum class Form : std::uint8_t {
    kWhole = 0,
    kFloat = 1,   ///< a double that is one
    kBfloat = 2,  ///< the upper half of a float, or of a double that is one
    kInt16 = 3,   ///< a whole number
    kInt8 = 4,    ///< how often `scale` it is
  };

  Names names = Names::kRowsAndKeys;
  Form form = Form::kWhole;
  std::uint8_t has_zeros = 0;
  std::uint8_t is_ahead = 0;  ///< as kUpdatesAhead
  std::uint32_t list = 0;
  std::uint32_t by_row = 0;  ///< how many updates are named by rows
  std::uint32_t distance_bytes = 0;
  float scale = 1;
  /// 0: the body follows as it is. Otherwise its length, which is at most that of the records that the
  /// updates stand for; one zstd frame follows, which holds it.
  std::uint32_t body_bytes = 0;
};
static_assert(sizeof(PackedHeader) == 24 && std::is_trivially_copyable_v<PackedHeader>);

/// Writes such messages. Thread safety: none.
class UpdatePacker {
 public:
  UpdatePacker(ValueType type, std::uint32_t width) : type_(type), width_(width) {}

  /// Forgets all updates.
  void clear();
  // Another update; its values must stay until pack(). No row or key comes twice.
  void add_row(std::uint64_t row, const std::byte* values) { rows_.push_back({row, values}); }
  void add_key(Key key, const std::byte* values) { keys_.push_back({key, values}); }

  /// Writes the message: header, with the right `kind` and `count`, and payload. `packed` says how: `names`,
  /// `list`, `is_ahead`, and the `scale` of which all values may be small multiples. With a list all updates
  /// must be named by keys. Returns its length; nullopt: `to` is too short.
  std::optional<std::size_t> pack(BulkHeader header, PackedHeader packed, std::span<std::byte> to);

 private:
  struct Named {
    std::uint64_t name = 0;
    const std::byte* values = nullptr;
  };

  ValueType type_;
  std::uint32_t width_;
  std::vector<Named> rows_;
  std::vector<Named> keys_;
};

/// Compresses the body of such a message, which UpdatePacker has written, if that saves enough. Returns the
/// message's length.
std::size_t compress_packed(std::span<std::byte> message, base::Compressor& compressor);

/// Reads such a message, which may lie where its sender still writes: whatever it contains, nothing outside
/// it is read, but what is read may be nonsense. Names come in their order, and so do values.
class PackedUpdates {
 public:
  /// INVALID_ARGUMENT: its lengths do not agree, or it cannot be decompressed. What it names is not looked
  /// at. A compressed body is read where `decompressor` leaves it, and must stay there meanwhile.
  static absl::StatusOr<PackedUpdates> read(const BulkMessage& message, ValueType type, std::uint32_t width,
                                            base::Decompressor& decompressor);

  [[nodiscard]] const PackedHeader& header() const { return header_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Of the updates that are named by keys in the message itself: all but the first by_row, or, with kList,
  /// none.
  [[nodiscard]] std::uint32_t keys() const { return keys_; }
  [[nodiscard]] Key key(std::uint32_t i) const;

  /// The next row's number; nullopt: the message is broken. To be called by_row times.
  std::optional<std::uint64_t> next_row();
  /// The values of the next so many updates, `distance_bytes` apart. REQUIRES: in all no more than count().
  void next_values(std::uint32_t updates, std::byte* to, std::size_t distance_bytes);
  /// No byte of rows' names is left. REQUIRES: all have been read.
  [[nodiscard]] bool rows_are_complete() const { return distances_.empty(); }

 private:
  PackedHeader header_;
  ValueType type_ = ValueType::kFloat;
  std::uint32_t width_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t keys_ = 0;
  const std::byte* key_bytes_ = nullptr;
  std::span<const std::byte> distances_;  ///< those that have not been read
  std::uint64_t least_row_ = 0;           ///< that the next one could be
  std::span<const std::byte> zeros_;
  std::uint64_t next_value_ = 0;       ///< a bit of `zeros_`
  std::span<const std::byte> values_;  ///< those that have not been read
};

}  // namespace verbena::protocol
