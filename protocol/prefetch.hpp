// Rows, and arrays of what is known of each key, are used in an order that no processor foresees: one by one each would be
// waited for. Where several are used, the next ones are fetched into its cache while one is at work.
#pragma once

#include <cstddef>

namespace verbena::protocol {

/// So many keys ahead.
inline constexpr std::size_t kKeysAhead = 8;

}  // namespace verbena::protocol
