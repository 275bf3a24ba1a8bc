#include "apps/bench/operations.hpp"

#include <algorithm>

namespace verbena::apps::bench {

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> kNames{"read",       "read-batch",   "write",         "write-notify",
                                               "pull",       "pull-large",   "pull-in-place", "pull-batch",
                                               "push-batch", "push-visible", "clock",         "idle-server"};
  return kNames;
}

bool BenchOptions::wants(std::string_view operation) const {
  return operations.empty() || std::find(operations.begin(), operations.end(), operation) != operations.end();
}

}  // namespace verbena::apps::bench
