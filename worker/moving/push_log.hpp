// Updates that are not known to be applied, for each row in the order in which they were pushed. The first
// one is sent, and the next one when the first is applied. So a reader that sees an update has seen those
// before it.
//
// No I/O. Thread safety: none; one owner.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include <verbena/keys.hpp>

namespace verbena::worker {

class PushLog {
 public:
  /// An update: the `index`-th of the push at this address.
  struct Update {
    const void* push = nullptr;
    std::size_t index = 0;
    friend bool operator==(const Update&, const Update&) = default;
  };

  void add(Key key, Update update) { rows_[key].push_back(update); }
  [[nodiscard]] bool contains(Key key) const { return rows_.contains(key); }
  /// Nothing that was pushed to the row before has to be applied first. REQUIRES: it was added, and has not
  /// ended.
  [[nodiscard]] bool is_first(Key key, Update update) const { return rows_.at(key).front() == update; }
  /// The first update of the row is applied, or never will be. Returns true if there are no more.
  bool end_first(Key key) {
    const auto found = rows_.find(key);
    found->second.erase(found->second.begin());
    if (!found->second.empty()) return false;
    rows_.erase(found);
    return true;
  }

 private:
  absl::flat_hash_map<Key, std::vector<Update>> rows_;
};

}  // namespace verbena::worker
