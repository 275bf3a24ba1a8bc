// A server's side of checkpoints: the cut, at which its rows are copied, and the files, which are written
// from the copies while training goes on. docs/checkpoints.md, docs/decisions/0043-cuts.md
//
// Worker 0 says that there will be a cut at a clock (protocol::SaveRows) before it finishes the clock before.
// A lane copies its rows when its min clock reaches the cut's clock, before it tells anybody so, and before
// it applies any update of that clock. Rows of dynamic tables are copied by the transport's thread, when the
// last worker says that it has finished the clock before, and before the lanes hear of it. Workers make a cut
// only in a barrier: none of them goes on before all lanes of all servers have told it the clock. So all
// copies of a job are of one moment.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/errand.hpp"
#include "checkpoint/file_system.hpp"
#include "checkpoint/part_writer.hpp"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "server/saved_rows.hpp"

namespace verbena::server {

/// The copies of one cut. Thread safety: each lane, and the transport's thread, has a place of its own, until
/// it says that it is done; then they belong to whoever has seen is_taken().
class Cut {
 public:
  explicit Cut(std::uint32_t lanes) : lanes_(lanes) {}

  /// For another cut; the memory of the last one is used again.
  void begin(consistency::Clock clock);
  [[nodiscard]] consistency::Clock clock() const { return clock_; }

  /// Copies of all tables, by number, that the lane has rows of. Throws std::bad_alloc.
  SavedRows& of_lane(std::uint32_t lane, std::uint32_t table) { return lanes_[lane].table(table); }
  SavedRows& of_server(std::uint32_t table) { return server_.table(table); }
  /// The lane has copied its rows, or could not.
  void lane_is_done(std::uint32_t lane, absl::Status status);
  void server_is_done(absl::Status status);

  [[nodiscard]] bool is_taken() const { return left_.load(std::memory_order_acquire) == 0; }
  /// Calls use(table, rows) for all copies, one after the other. REQUIRES: is_taken()
  template <class Use>
  absl::Status for_each(const Use& use) {
    for (Place& lane : lanes_) {
      if (absl::Status status = lane.for_each(use); !status.ok()) return status;
    }
    return server_.for_each(use);
  }

 private:
  struct Place {
    std::deque<SavedRows> tables;  ///< a deque: a reference stays while others are added
    std::vector<bool> are_used;    ///< of `tables`, in this cut
    absl::Status status;

    SavedRows& table(std::uint32_t number);
    template <class Use>
    absl::Status for_each(const Use& use) {
      if (!status.ok()) return status;
      for (std::uint32_t table = 0; table < tables.size(); ++table) {
        if (!are_used[table]) continue;
        if (absl::Status used = use(table, tables[table]); !used.ok()) return used;
      }
      return absl::OkStatus();
    }
  };
  void place_is_done(Place& place, absl::Status status);

  consistency::Clock clock_ = 0;
  std::vector<Place> lanes_;
  Place server_;
  std::atomic<std::size_t> left_ = 0;  ///< places that are not done
};

/// The name of the blob with the counts of keys that have no rows yet: of a table, for those whose parts are
/// in the range (protocol::Admission::save()).
[[nodiscard]] std::string counts_name(std::uint32_t table, checkpoint::NumberRange parts);
/// The table of such a name; nullopt: it is another one.
[[nodiscard]] std::optional<std::uint32_t> table_of_counts(std::string_view name);

/// One checkpoint at a time. Thread safety: belongs to the transport's thread.
class Saving {
 public:
  /// `wake`: has that thread call step() soon; may be called from any thread.
  Saving(std::uint32_t server, std::uint32_t lanes, std::function<void()> wake);
  /// Gives up what is being written.
  ~Saving();
  Saving(const Saving&) = delete;
  Saving& operator=(const Saving&) = delete;

  [[nodiscard]] bool is_under_way() const { return is_under_way_; }
  /// The cut is now expected. Nothing is done on the disk before it is taken, since that may take any time.
  /// FAILED_PRECONDITION: an increment of a checkpoint that is not the last one that was written here.
  /// REQUIRES: not is_under_way(); or it is the cut that is expected already, and is not taken
  absl::Status begin(const protocol::SaveRows& save);
  /// REQUIRES: is_under_way(). Lanes share it.
  [[nodiscard]] const std::shared_ptr<Cut>& cut() const { return cut_; }

  /// What worker 0 is to be told next, if there is anything.
  std::optional<protocol::PartSaved> step();

 private:
  [[nodiscard]] absl::Status write();
  [[nodiscard]] absl::Status write_table(std::uint32_t table, SavedRows& saved);
  [[nodiscard]] absl::Status write_all(std::uint32_t table, const SavedRows& saved);
  [[nodiscard]] absl::Status write_rows(std::uint32_t table, const SavedRows& saved,
                                        std::span<const std::uint64_t> rows);
  [[nodiscard]] std::uint64_t rows_at_once(const SavedRows& saved) const;

  const std::uint32_t server_;
  const std::function<void()> wake_;
  protocol::SaveRows save_;        ///< the last one
  std::int64_t last_written_ = 0;  ///< the clock of the checkpoint that fingerprints are of; 0: of none
  std::shared_ptr<Cut> cut_;
  bool is_under_way_ = false;
  std::unique_ptr<checkpoint::PartWriter> writer_;  ///< the errand's, while that is under way
  std::atomic<bool> gives_up_ = false;
  base::Errand writing_;
};

}  // namespace verbena::server
