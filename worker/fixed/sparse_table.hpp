// A static table of sparse keys. The keys' hashes say which part has a key; a worker names a row by its key,
// and finds it on the server through the index that lies there (protocol/sparse_index.hpp): in place, or by
// one-sided reads, one for the buckets of the index and one for the row. A key that has no row reads as the
// initial values say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "protocol/initial_values.hpp"
#include "protocol/sparse_index.hpp"
#include "worker/fixed/fixed_table.hpp"
#include "worker/fixed/pull_ways.hpp"
#include "worker/fixed/sparse_view.hpp"

namespace verbena::worker {

class SparseTable;

/// A pull of rows that are not all at hand.
class SparsePull final : public Operation {
 public:
  /// Pulls the keys from the index `next` on. `trip`: if how long it takes is to be known.
  SparsePull(SparseTable& table, const Keys& keys, std::size_t next, std::byte* out,
             const std::optional<PullWays::Trip>& trip);

  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kClock;  // as FixedPull
  }
  [[nodiscard]] std::string other_wait() const override;
  void on_lost_server(const ServerLink& /*link*/) override {
    begins_anew_ = true;
    trip_.reset();
  }

 private:
  friend class SparseTable;
  bool advance() override;

  /// What an item waits for.
  enum class Stage : std::uint8_t {
    kStart,      ///< to be begun: nothing is known
    kDirectory,  ///< the copy of the directory
    kBuckets,    ///< its bucket and the next one
    kOverflow,   ///< its overflow bucket
    kRow,        ///< a row that may be its own
    kKnownRow,   ///< the row that was its own before
    kDone,
  };
  /// A key that is looked for by reads.
  struct Item {
    std::size_t index = 0;  ///< in `keys`
    protocol::KeyHash hash{0};
    Part* part = nullptr;
    Stage stage = Stage::kStart;
    std::uint32_t segment = 0;
    std::uint32_t entries = 0;     ///< how many of the entries of its buckets have been read from the server
    std::uint32_t next_entry = 0;  ///< the first of these that has not been looked at
    protocol::Row row = {};        ///< the one that is being read
    consistency::Clock clock = 0;  ///< the part's min clock before the reads
    std::uint64_t shipped = 0;     ///< `shipped` of the part's updates before the reads
    std::span<std::byte> staging;  ///< three buckets, then a row
    std::optional<Lookups::Ticket> ticket;  ///< while it knows of a place that it has read of
  };
  /// A copy of a part's directory that is being made.
  struct DirectoryCopy {
    Part* part = nullptr;
    std::optional<std::uint64_t> depth;  ///< nullopt: being read
    bool is_read = false;                ///< the words are on their way
    std::uint64_t segments_gone = 0;     ///< of the part, when it was begun
    LocalSpan memory;
  };

  SparseTable& table_;
  std::byte* const out_;
  std::size_t next_;         ///< all keys before it are read, or are items
  std::vector<Item> items_;  ///< not done
  std::vector<DirectoryCopy> directories_;
  std::optional<LocalSpan> staging_;
  bool begins_anew_ = false;  ///< some reads have brought nothing
  std::optional<PullWays::Trip> trip_;
};

class SparseTable : public FixedTable {
 public:
  SparseTable(SessionCore& session, std::uint32_t number, const TableOptions& options, ValueType type);

  absl::Status pull(std::span<const Key> keys, std::byte* out, std::size_t values) override;
  absl::Status pull(KeyRange range, std::byte* out, std::size_t values) override;
  absl::StatusOr<RowHandles> locate(const Keys& keys) override;
  absl::Status pull_located(RowHandles& rows, std::byte* out, std::size_t values) override;
  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& shard) override;
  [[nodiscard]] bool has_keys_of(std::uint32_t server) const override;
  absl::Status scan(KeyRange range, absl::FunctionRef<absl::Status(Key, const std::byte*)> use) override;
  absl::Status on_server_back(ServerLink& link, const transport::RemoteDescriptor& shard) override;
  absl::Status on_region(ServerLink& link, const protocol::RegionAdded& added) override;
  absl::Status on_gone(ServerLink& link, const protocol::BulkMessage& message) override;

 private:
  friend class GatherPull;
  friend class SparsePull;
  friend class SparseScan;
  using Item = SparsePull::Item;

  std::shared_ptr<Operation> make_pull(const Keys& keys, std::size_t next, std::byte* out) override;
  void note_end(const std::optional<PullWays::Trip>& trip);
  /// Where a key's row is, as far as its index has been looked at.
  struct Ahead {
    protocol::KeyHash hash{0};
    Part* part = nullptr;
    const protocol::IndexSegment* segment = nullptr;  ///< nullptr: the row is not read in place
    protocol::IndexAnswer answer;                     ///< kFound: the row is probably the key's
    const std::byte* row = nullptr;                   ///< nullptr: that one is not at hand
  };
  /// Looks for the rows of the keys from `from` on, many at a time; calls use(index, key, place) for one key
  /// after the other until it returns false. Returns the index of that key, or keys.size().
  template <class Keys, class Use>
  std::size_t look_up(const Keys& keys, std::size_t from, const Use& use);
  /// Reads rows from `from` on until one cannot be read at once; returns its index, or keys.size().
  template <class Keys>
  std::size_t pull_now(const Keys& keys, std::size_t from, std::byte* out);
  std::size_t pull_at(const KeyList& keys, std::span<std::uint64_t> places, std::byte* out);
  bool pull_now(Part& part, const protocol::KeyHash& hash, Key key, std::byte* out);
  /// part.in_place, for this call.
  void prepare(Part& part);
  bool read_in_place(Part& part, const protocol::KeyHash& hash, Key key, std::byte* out);
  [[nodiscard]] static bool misses_own(const Part& part, Key key);
  /// Of the part and the row, for RowHandles.
  [[nodiscard]] std::uint64_t place(const Part& part, Row row) const;
  void take_row(Part& part, Key key, const std::byte* row, std::byte* out);
  /// As take_fetched(), but the row stays out of the cache.
  void take_uncached(Part& part, Row row, const std::byte* values, consistency::Clock min_clock,
                     std::byte* out);
  void take_absent(Part& part, Key key, consistency::Clock min_clock, std::byte* out);

  /// Where the part's rows are: what link.regions say.
  absl::Status see_regions(Part& part) const;

  // Steps of a pull.
  bool advance(SparsePull& pull);
  void begin_anew(SparsePull& pull);
  bool begin_items(SparsePull& pull);
  void copy_directories(SparsePull& pull);
  /// True: it has asked for a read, or is done.
  bool step(SparsePull& pull, Item& item);
  bool begin(SparsePull& pull, Item& item);
  bool look_at_entries(SparsePull& pull, Item& item);
  bool finish(SparsePull& pull, Item& item, const std::byte* row);
  static void begin_lookup(Item& item);
  static void end_lookup(Item& item);
  /// Asks for the row. False: it is in a region that has not been heard of.
  bool read_row(SparsePull& pull, Item& item, protocol::Row row);

  const protocol::InitialValues initial_;
  const bool loses_rows_;                  ///< rows may be taken away
  const std::size_t item_bytes_;           ///< of Item::staging
  bool all_mapped_ = true;                 ///< no part is read from afar
  PullWays ways_;                          ///< of rows from afar, where the session's options leave it open
  std::uint64_t calls_ = 0;                ///< of look_up() and pull_at()
  const std::uint64_t number_of_handles_;  ///< RowHandles::table_
};

}  // namespace verbena::worker
