// A copy of all entries below a prefix that follows the store, whatever its watches miss: it gets all of them
// now and then, and at once when a watch ends, and watches from the revision that it got, plus one.
//
// It may be behind the store by any time; the revision says how far it is. It never goes back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cluster/store.hpp"

namespace verbena::cluster {

struct MirrorOptions {
  /// How often all is read, though no watch has ended. Shorter: what a watch has missed is seen sooner;
  /// longer: fewer requests.
  Duration read_interval = std::chrono::seconds(2);
  Duration request_limit = std::chrono::seconds(1);
};

/// Step-driven, beside its store: poll() it as often. Thread safety: belongs to the store's thread.
class Mirror {
 public:
  /// REQUIRES: `store` outlives it.
  Mirror(Store& store, std::string prefix, const MirrorOptions& options = {});
  /// Nothing more happens for it.
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Of the newest change in entries(); 0: nothing has been read yet. Older ones may be missing, if they are
  /// later than current_at().
  [[nodiscard]] Revision revision() const { return revision_; }
  /// entries() has all that had happened at this time, at least. TimePoint::min(): nothing has been read yet.
  [[nodiscard]] TimePoint current_at() const { return current_at_; }
  /// Why the last read has failed; OK: it has not.
  [[nodiscard]] const absl::Status& trouble() const { return trouble_; }

  [[nodiscard]] TimePoint next_poll() const { return is_reading_ ? TimePoint::max() : next_read_; }
  void poll(TimePoint now);

 private:
  /// Between two reads, however many watches end.
  static constexpr Duration kShortestInterval = std::chrono::milliseconds(100);

  void on_snapshot(const absl::StatusOr<Snapshot>& snapshot);
  void on_events(const absl::StatusOr<std::vector<Event>>& events);
  void apply(const Event& event);

  Store& store_;
  const std::string prefix_;
  const MirrorOptions options_;
  std::map<std::string, Entry> entries_;
  Revision revision_ = 0;
  TimePoint current_at_ = TimePoint::min();
  absl::Status trouble_;
  bool is_reading_ = false;
  std::vector<Event> heard_;  ///< while it reads: what is read may be older
  TimePoint asked_at_ = TimePoint::min();
  TimePoint next_read_ = TimePoint::min();
  std::optional<Store::WatchId> watch_;
  /// Gone with the mirror: answers that come later find that.
  std::shared_ptr<Mirror*> self_ = std::make_shared<Mirror*>(this);
};

}  // namespace verbena::cluster
