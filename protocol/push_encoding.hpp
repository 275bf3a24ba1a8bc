// In which bytes a worker's updates travel (TableOptions::encoding), as text. None of them changes a value.
//
//   auto               packed if that is likely to pay: over a network, where rows are narrow or the filter
//                      rounds; the usual choice
//   records            a key and all values for each row
//   packed(lists=0,zstd=0)
//                      as packed_updates.hpp says; of each lane's rows, lists of so many keys in all
//                      get a number with which they are named when they are sent again; each message is
//                      compressed by zstd at this level, 1 to 19, unless it is 0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace verbena::protocol {

inline constexpr std::string_view kUsualEncoding = "auto";

struct PushEncoding {
  enum class Kind : std::uint8_t { kAuto, kRecords, kPacked };

  /// INVALID_ARGUMENT: the text is none of the above.
  static absl::StatusOr<PushEncoding> find(std::string_view text);

  Kind kind = Kind::kAuto;
  std::uint64_t listed_keys = 0;
  int zstd_level = 0;  ///< 0: not compressed
};

}  // namespace verbena::protocol
