// What a table takes on its servers, for programs.
#pragma once

#include <nlohmann/json.hpp>

#include <verbena/server_function.hpp>

namespace verbena::apps {

inline nlohmann::json to_json(const TableMemory& memory) {
  return {{"rows", memory.rows},
          {"rows_waiting", memory.rows_waiting},
          {"rows_free", memory.rows_free},
          {"bytes", memory.bytes()},
          {"value_bytes", memory.value_bytes},
          {"state_bytes", memory.state_bytes},
          {"book_bytes", memory.book_bytes},
          {"index_bytes", memory.index_bytes},
          {"count_bytes", memory.count_bytes},
          {"refused", memory.refused}};
}

}  // namespace verbena::apps
