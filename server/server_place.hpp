// A server's place in its job: all that decides which rows of a table it has, and what it keeps of them.
#pragma once

#include <cstdint>

#include "protocol/placement.hpp"
#include "server/sparse_index.hpp"

namespace verbena::server {

/// Who is none: a stranger or an observer.
constexpr std::uint32_t kNoWorker = UINT32_MAX;

struct ServerPlace {
  std::uint32_t server = 0;
  protocol::Placement placement{1};
  std::uint32_t lanes = 1;
  std::uint32_t workers = 1;
  bool has_push_budget = false;
  std::uint32_t keys_of_segment = SparseIndex::kUsualKeysOfSegment;
};

}  // namespace verbena::server
