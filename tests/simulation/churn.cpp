#include "tests/simulation/churn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/rules.hpp"
#include "protocol/random_bits.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/saver.hpp"
#include "tests/simulation/sparse_key.hpp"
#include <verbena/row_handles.hpp>
#include <verbena/table.hpp>

namespace verbena::simulation {

using consistency::Clock;

namespace {

class ChurnWorkload {
 public:
  ChurnWorkload(World& world, const Scenario& scenario, Session& session)
      : world_(world),
        scenario_(scenario),
        churn_(*scenario.churn),
        session_(session),
        number_(world.identity(session.rank()).number),
        former_(world.identity(session.rank()).former),
        saver_(world, scenario, session),
        random_(scenario.seed * 1021 + session.rank() + 1),
        staleness_(consistency::staleness(churn_.model)),
        is_by_age_(churn_.eviction.empty()),
        is_bounded_(is_by_age_ && !consistency::rules_of(churn_.model).lets_workers_drift()) {}

  absl::Status run() {
    const std::string by_age = fmt::format("age(clocks={})", churn_.age);
    const auto opened = session_.table<std::int64_t>({.name = "rows",
                                                      .key_space = KeySpace::kSparse,
                                                      .width = churn_.width,
                                                      .consistency = churn_.model,
                                                      .eviction = is_by_age_ ? by_age : churn_.eviction,
                                                      .encoding = churn_.encoding,
                                                      .cache_rows = churn_.cache_rows});
    RETURN_IF_ERROR(opened.status());
    table_ = *opened;
    world_.joined(session_.rank());
    const absl::StatusOr<std::optional<Saver::State>> saved = saver_.resume();
    RETURN_IF_ERROR(saved.status());
    clock_ = session_.current_clock() - 1;
    if (*saved && !session_.is_catching_up()) RETURN_IF_ERROR(pull());
    for (++clock_; clock_ < scenario_.clocks; ++clock_) {
      RETURN_IF_ERROR(note_that_it_is_there());
      // The process whose place it has taken has done that.
      if (!session_.is_catching_up()) RETURN_IF_ERROR(push());
      RETURN_IF_ERROR(saver_.is_due(clock_) ? saver_.save({}) : session_.clock());
      if (clock_ + 1 == scenario_.leaves_at[session_.rank()]) return absl::OkStatus();
      if (session_.is_catching_up()) continue;
      // Who reads in each clock is not far ahead of the others.
      RETURN_IF_ERROR(pull());
      for (std::uint64_t more = below(random_, 4); more > 0; --more)
        RETURN_IF_ERROR(chance(random_, 0.15) ? scan() : pull());
    }
    RETURN_IF_ERROR(session_.barrier());
    saver_.finish();
    return check_that_nothing_waits();
  }

 private:
  [[nodiscard]] Key key(std::uint64_t i) const { return churn_.pairs ? paired_key(i) : sparse_key(i); }
  /// It takes another's place, and goes on from here.
  absl::Status note_that_it_is_there() {
    if (!former_ || session_.is_catching_up()) return absl::OkStatus();
    return world_.note(Replacement{*std::exchange(former_, std::nullopt), number_, session_.current_clock()});
  }
  /// What a push adds to value `at` of the row.
  [[nodiscard]] static std::int64_t unit(std::uint64_t i, std::uint32_t at) {
    return static_cast<std::int64_t>(1'000 * (i + 1) + 100'003 * at + 7);
  }
  [[nodiscard]] std::uint64_t owner(std::uint64_t i) const { return i % session_.workers(); }
  /// In half of the turns it is pushed to, in some of these but for so many clocks that the row may just go,
  /// or just stay.
  [[nodiscard]] bool is_on(std::uint64_t i, Clock clock) const {
    const auto turn = static_cast<std::uint64_t>(clock / churn_.turn);
    const std::uint64_t bits = protocol::random_bits(protocol::random_bits(scenario_.seed + i) + turn);
    const auto gap = static_cast<Clock>(bits / 4 % 4) + churn_.age - 2;
    const bool is_in_gap = bits / 2 % 2 == 0 && clock % churn_.turn >= 1 && clock % churn_.turn <= gap;
    return bits % 2 == 0 && !is_in_gap;
  }
  /// The owner of a key stops when it leaves.
  [[nodiscard]] bool is_pushed(std::uint64_t i, Clock clock) const {
    return clock >= 0 && clock < std::min(scenario_.clocks, scenario_.leaves_at[owner(i)]) && is_on(i, clock);
  }
  /// How often the row has been pushed to since it came, if all pushes before the clock count, and a row goes
  /// with which nobody has done anything for `gap` clocks.
  [[nodiscard]] std::int64_t count_before(std::uint64_t i, Clock clock, Clock gap) const {
    std::int64_t count = 0;
    Clock off = 0;
    while (--clock >= 0 && off < gap) {
      off = is_pushed(i, clock) ? 0 : off + 1;
      if (off == 0) ++count;
    }
    return count;
  }
  /// How many of the pushes before the clock must count: none if the row may have gone by the time at which
  /// all have finished `reached` clocks.
  [[nodiscard]] std::int64_t least_count(std::uint64_t i, Clock before, Clock reached, Clock gap) const {
    for (Clock clock = before; clock <= reached; ++clock) {
      if (count_before(i, clock, gap) == 0) return 0;
    }
    return count_before(i, before, gap);
  }
  [[nodiscard]] std::vector<std::uint64_t> some() {
    std::vector<std::uint64_t> rows;
    const bool all = churn_.reads >= 0.4 && chance(random_, 0.3);
    for (std::uint64_t i = 0; i < churn_.rows; ++i) {
      if (all || chance(random_, churn_.reads)) rows.push_back(i);
    }
    if (rows.empty()) rows.push_back(below(random_, churn_.rows));
    return rows;
  }

  absl::Status push() {
    std::vector<Key> keys;
    std::vector<std::int64_t> updates;
    for (std::uint64_t i = 0; i < churn_.rows; ++i) {
      if (owner(i) != session_.rank() || !is_pushed(i, clock_)) continue;
      keys.push_back(key(i));
      for (std::uint32_t at = 0; at < churn_.width; ++at) updates.push_back(unit(i, at));
    }
    trace([&] {
      return fmt::format("worker {} at clock {} pushes to {} keys", session_.rank(), clock_, keys.size());
    });
    // Where updates are held back, a row remembers the end of the clock.
    if (!consistency::rules_of(churn_.model).holds_updates_back) world_.pushes_at(clock_);
    return table_.push(keys, updates);
  }

  absl::Status pull() {
    std::vector<std::uint64_t> rows = some();
    const bool by_handles = scenario_.pulls_by_handles && ++pulls_ % 2 == 0;
    if (by_handles) {
      rows.resize(churn_.rows);
      std::iota(rows.begin(), rows.end(), std::uint64_t{0});
    }
    std::vector<Key> keys;
    for (const std::uint64_t i : rows) keys.push_back(key(i));
    std::vector<std::int64_t> values(rows.size() * churn_.width);
    trace([&] {
      return fmt::format("worker {} after clock {} pulls {} {}", session_.rank(), clock_, rows.size(),
                         by_handles ? "handles" : "keys");
    });
    RETURN_IF_ERROR(by_handles ? pull_by_handles(keys, values) : table_.pull(keys, values));
    for (std::size_t k = 0; k < rows.size(); ++k) {
      RETURN_IF_ERROR(check(rows[k], std::span(values).subspan(k * churn_.width, churn_.width)));
    }
    return absl::OkStatus();
  }

  /// By those that the first such pull has found: the rows go and come.
  absl::Status pull_by_handles(const std::vector<Key>& keys, std::vector<std::int64_t>& values) {
    if (!handles_) {
      absl::StatusOr<RowHandles> located = table_.locate(keys);
      RETURN_IF_ERROR(located.status());
      handles_ = *std::move(located);
    }
    return table_.pull(*handles_, values);
  }

  /// A row that comes while the others are read may be missed, or seen twice if it goes and comes.
  absl::Status scan() {
    return table_.scan([&](Key seen, std::span<const std::int64_t> values) -> absl::Status {
      for (std::uint64_t i = 0; i < churn_.rows; ++i) {
        if (seen == key(i)) return check(i, values);
      }
      return complain(fmt::format("a scan sees key {}, which nobody has pushed to", seen));
    });
  }

  absl::Status check(std::uint64_t i, std::span<const std::int64_t> values) {
    const Clock now = clock_ + 1;
    const World::MinClocks min_clocks = world_.min_clocks();
    // What reads must see is bounded by the reader's clock. What servers have is, too, since they wait for
    // it; but one that has heard further clocks of the process whose place the reader has taken has waited
    // for those.
    const Clock reached = std::max(now, min_clocks.newest);
    // A row remembers the min clock of its lane, which may be so far behind that of the push: a worker looks
    // at the clocks of those servers alone that it reads from. So it is more where one of them does not hear
    // from a worker, whose connection to it has broken, while the others do.
    const Clock behind = std::max(staleness_ + 2, min_clocks.most_behind);
    // The pushes of clocks before now − staleness must be there, if the row cannot have gone since. Of
    // others' clocks those up to reached + staleness may be. Where nothing bounds that, a worker may go
    // through a turn before others have begun it: then the row stays.
    const Clock shortest = churn_.age - behind - 1;
    const Clock longest = churn_.age + behind + 2;
    const std::int64_t least = is_bounded_ ? least_count(i, now - staleness_, reached, shortest) : 0;
    std::int64_t most = is_bounded_ ? 0 : scenario_.clocks;
    for (Clock clock = now - staleness_; is_bounded_ && clock <= reached + staleness_ + 2; ++clock)
      most = std::max(most, count_before(i, clock, longest));
    // Who takes another's place pushes again what that one may have pushed in its last clock.
    if (!consistency::rules_of(churn_.model).holds_updates_back) most += scenario_.spares;
    for (std::uint32_t at = 0; at < values.size(); ++at) {
      const std::int64_t count = values[at] / unit(i, at);
      const bool is_right = values[at] % unit(i, at) == 0 && count <= most && count >= least;
      if (is_right) continue;
      return complain(
          fmt::format("worker {} at clock {} reads {} in value {} of key {}, {} to {} times {} may be there",
                      session_.rank(), now, values[at], at, i, least, most, unit(i, at)));
    }
    world_.checked(values.size());
    return absl::OkStatus();
  }

  /// Memory is used again once all have heard of what is gone, or are not there any more. The last worker
  /// asks when it has done all, and the others have, too, or will have soon.
  absl::Status check_that_nothing_waits() {
    if (session_.rank() + 1 < session_.workers()) return absl::OkStatus();
    constexpr auto kLongestPause = std::chrono::seconds(16);
    for (Duration pause = std::chrono::milliseconds(1);; pause *= 2) {
      const absl::StatusOr<TableMemory> memory = table_.memory();
      RETURN_IF_ERROR(memory.status());
      if (memory->rows_waiting == 0) return absl::OkStatus();
      if (pause > kLongestPause)
        return complain(fmt::format("{} rows that are gone wait for ever", memory->rows_waiting));
      world_.compute(pause);
    }
  }

  /// Whose place another one takes may go on for a while: what it sees is not wrong, and nobody knows it.
  absl::Status complain(std::string what) {
    if (!world_.has_place(number_)) return absl::UnavailableError("it is dead");
    return world_.note(Complaint{std::move(what)});
  }

  template <class Line>
  void trace(Line line) {
    if (world_.traces()) world_.trace(line());
  }

  World& world_;
  const Scenario& scenario_;
  const Churn& churn_;
  Session& session_;
  const std::uint32_t number_;  ///< of this process, among all that are this worker one after the other
  std::optional<std::uint32_t> former_;  ///< whose place it takes, until it is there
  Saver saver_;
  std::mt19937_64 random_;
  const Clock staleness_;
  const bool is_by_age_;
  const bool is_bounded_;  ///< how often a row may count
  Table<std::int64_t> table_;
  Clock clock_ = 0;
  std::optional<RowHandles> handles_;
  int pulls_ = 0;  ///< counted where every other one goes by handles
};

}  // namespace

absl::Status run_churn(World& world, const Scenario& scenario, Session& session) {
  return ChurnWorkload(world, scenario, session).run();
}

}  // namespace verbena::simulation
