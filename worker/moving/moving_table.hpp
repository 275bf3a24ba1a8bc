// A dynamic table (docs/allocation.md), as users and a session see it. Rows on this worker's node are read
// and changed at once, in place; for all other rows there are operations.
//
// Thread safety: none; it belongs to its session.
#pragma once

#include <memory>
#include <vector>

#include "base/prefetch.hpp"
#include "consistency/rules.hpp"
#include "worker/moving/moving_rows.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

class MovingTable final : public TableCore {
 public:
  MovingTable(SessionCore& session, std::uint32_t number, const TableOptions& options, ValueType type);

  absl::Status pull(std::span<const Key> keys, std::byte* out, std::size_t values) override;
  absl::Status pull(KeyRange range, std::byte* out, std::size_t values) override;
  absl::Status push(std::span<const Key> keys, const std::byte* updates, std::size_t values,
                    bool wait) override;
  absl::Status push(KeyRange range, const std::byte* updates, std::size_t values, bool wait) override;
  [[nodiscard]] bool rows_move() const override { return true; }
  absl::StatusOr<std::shared_ptr<Operation>> start_localize(const Keys& keys,
                                                            const Operations& after) override;
  absl::Status intend(const Keys& keys, consistency::Clock from, consistency::Clock to) override;
  absl::StatusOr<std::size_t> hold(const Keys& keys, std::size_t rows,
                                   absl::FunctionRef<void(std::size_t, std::byte*)> use) override;
  void release() override;
  [[nodiscard]] bool is_free_here(Key key) const override {
    return rows_.is_here(key) && !rows_.marked.contains(key);
  }
  void prefetch(Key key) const override {
    if (rows_.own.is_mapped() && rows_.nodes.size() > 1) base::prefetch_to_read(rows_.own.slot(key).bytes);
  }
  std::size_t redraw(std::span<Key> keys, double preference, const KeyDistribution& distribution,
                     std::mt19937_64& random) const override;

  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& slots) override {
    return rows_.add_server(link, slots);
  }
  /// Clocks do not follow a row that moves.
  [[nodiscard]] bool follows_clocks() const override { return false; }
  /// Asks homes where rows are, and tells them of intents that have ended.
  bool send_put_off() override;
  /// Acts on intents before anybody is told of the clock's end. So the home of a row hears that this worker
  /// is done with it before another worker, which has waited for this clock, can want the row.
  void on_clock_ends() override;
  void on_clock_begins(bool is_barrier) override;
  /// Sends the updates of all replicas except those that are being read.
  bool settle() override { return rows_.replication.settle(); }
  /// No more intents, and nothing is held.
  void on_leaving() override;
  void on_settled() override { rows_.intents.told().end_all_counted(); }
  absl::Status on_answers(ServerLink& link, const protocol::KeyAnswers& answers) override {
    return rows_.on_answers(link, answers);
  }
  absl::Status on_push_answer(ServerLink& link, const protocol::PushAnswer& answer) override {
    return rows_.on_push_answer(link, answer);
  }
  absl::Status on_install_answer(ServerLink& link, const protocol::InstallAnswer& answer) override {
    return rows_.on_install_answer(link, answer);
  }
  absl::Status on_census(ServerLink& link, const protocol::Census& census) override {
    return rows_.on_census(link, census);
  }
  /// Rows that are on that server are lost.
  void on_dead_server(std::uint32_t server) override { rows_.on_dead_server(server); }

 private:
  std::shared_ptr<Operation> make_pull(const Keys& keys, std::size_t next, std::byte* out) override;
  template <class Keys>
  absl::Status push_rows(Keys keys, const std::byte* updates, std::size_t values, bool wait);
  [[gnu::noinline]] absl::Status push_rest(const Keys& keys, const std::byte* updates, std::size_t next,
                                           bool wait);
  /// Reads rows of this node in place, from the first on, until one is not here; returns its index.
  template <class Keys>
  std::size_t pull_now(const Keys& keys, std::byte* out);
  /// Adds to rows of this node in place, until one is not here; returns its index.
  template <class Keys>
  std::size_t push_now(const Keys& keys, const std::byte* updates);
  // The same if some rows of the table are marked (MovingRows::marked).
  template <class Keys>
  std::size_t pull_among_marked(const Keys& keys, std::byte* out);
  template <class Keys>
  std::size_t push_among_marked(const Keys& keys, const std::byte* updates);

  struct HeldRow {
    protocol::Slot slot;
    protocol::SlotHeader header;  ///< to be stored to give the row back
  };
  MovingRows rows_;
  std::vector<HeldRow> held_;
  transport::TimePoint clock_began_{};
};

}  // namespace verbena::worker
