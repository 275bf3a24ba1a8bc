// What one lane has of a static table's shard.
#pragma once

#include "protocol/row.hpp"
#include "server/stored_rows.hpp"
#include <verbena/keys.hpp>

namespace verbena::server {

class SparsePart;

struct LanePart {
  StoredRows* rows = nullptr;
  SparsePart* sparse = nullptr;  ///< the way from a key to its row; nullptr if the table is dense
  // The way from a key to its row if the table is dense.
  KeyRange keys = {};             ///< of the lane
  protocol::RowRange range = {};  ///< of the shard
};

}  // namespace verbena::server
