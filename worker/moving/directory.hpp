// Where a worker believes the rows of a table to be: at their homes, until it learns otherwise. Also who is
// the home of a key, if servers are gone; which rows it has asked about, and which rows it has looked for
// several times in vain, because others move them, so that it now has them moved to its own node.
//
// No I/O. Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "protocol/heirs.hpp"
#include "protocol/placement.hpp"
#include "worker/moving/key_map.hpp"

namespace verbena::worker {

/// A node that owns a row, and the epoch at which it came to own it.
struct Location {
  std::uint32_t node = 0;
  std::uint64_t epoch = 0;
  friend bool operator==(const Location&, const Location&) = default;
};

class Directory {
 public:
  /// How often a worker tries in vain to reach a row where it believes the row to be, before it fetches the
  /// row.
  static constexpr std::uint32_t kMostVainAttempts = 4;

  explicit Directory(const protocol::TablePlacement& homes) : homes_(homes), heirs_(homes.servers()) {}
  /// Must be called first; throws std::bad_alloc.
  void allocate() { locations_.allocate(homes_.rows()); }

  [[nodiscard]] std::uint32_t home(Key key) const { return heirs_.of(homes_.server_of(key)); }
  /// Those that the placement gives to the server.
  [[nodiscard]] KeyRange home_keys(std::uint32_t node) const { return homes_.keys(node); }
  [[nodiscard]] Location location(Key key) const;
  void set(Key key, Location location) { locations_[key] = location; }
  void prefetch(Key key) const { locations_.prefetch(key); }

  enum class Advice : std::uint8_t {
    kWait,         ///< the home has been asked, and has not answered
    kAsk,          ///< ask the home
    kAskAndFetch,  ///< the same, and fetch the row: too many attempts in succession have failed
  };
  /// The row was not at location(). `is_sure`: it certainly was not there at exactly that epoch. From now on
  /// the home counts as asked.
  Advice missed(Key key, bool is_sure);
  [[nodiscard]] bool is_asked(Key key) const { return asked_.contains(key); }
  /// The home answers. Returns false if nobody asked it.
  bool end_asking(Key key) { return asked_.erase(key) > 0; }
  /// The server is gone, and the next one inherits its keys. Returns the keys that it was asked about, in
  /// ascending order: from now on their new home counts as asked.
  std::vector<Key> lose(std::uint32_t server);
  /// The row was not found `there`, and has not been found since.
  [[nodiscard]] bool is_known_not_to_be(Key key, Location there) const;

  /// Returns false if the row is being fetched already.
  bool begin_fetch(Key key) { return fetched_.insert(key).second; }
  [[nodiscard]] bool is_fetched(Key key) const { return fetched_.contains(key); }
  void end_fetch(Key key) { fetched_.erase(key); }
  /// The row was where it was believed to be, or is lost. Returns true if it was fetched for this, and may
  /// leave now.
  bool end_chase(Key key);

 private:
  /// How many times in succession a row was not where it was believed to be, and where it certainly was not.
  struct Chase {
    std::uint32_t attempts = 0;
    std::optional<Location> not_at;
  };
  protocol::TablePlacement homes_;
  KeyMap<Location> locations_;  ///< of the rows that the worker has heard about: at most all
  protocol::Heirs heirs_;
  absl::flat_hash_map<Key, std::uint32_t> asked_;  ///< and whom
  absl::flat_hash_map<Key, Chase> chased_;
  absl::flat_hash_set<Key> fetched_;
};

}  // namespace verbena::worker
