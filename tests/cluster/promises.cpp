#include "tests/cluster/promises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "consistency/model.hpp"
#include "consistency/rules.hpp"

namespace verbena::testing {

TestRows::TestRows(KeySpace key_space, std::uint64_t rows) : key_space_(key_space), keys_(rows) {
  std::mt19937_64 random(rows);
  for (std::uint64_t row = 0; row < rows; ++row) keys_[row] = key_space == KeySpace::kDense ? row : random();
  // Keys that look special and are not.
  if (key_space == KeySpace::kSparse && rows > 2) {
    keys_[0] = 0;
    keys_[1] = kNoKey - 1;
  }
}

TableOptions TestRows::options(std::string name) const {
  if (key_space_ == KeySpace::kSparse) return {.name = std::move(name), .key_space = key_space_};
  return {.name = std::move(name), .rows = keys_.size()};
}

std::vector<Key> TestRows::keys(std::span<const std::uint64_t> rows) const {
  std::vector<Key> keys;
  for (const std::uint64_t row : rows) keys.push_back(key(row));
  return keys;
}

Keys TestRows::everything() const {
  if (key_space_ == KeySpace::kSparse) return keys_;
  return KeyRange{0, keys_.size()};
}

/// Column w of each row counts what worker w has pushed to it. In each clock every worker twice pushes 1 to
/// some of the rows, and reads after each push.
absl::Status check_reads(Session& session, const ConsistencyModel& model, std::int64_t clocks,
                         bool within_clocks, KeySpace key_space) {
  constexpr std::uint64_t kRows = 37;
  const TestRows rows(key_space, kRows);
  const std::uint32_t workers = session.workers();
  TableOptions counts = rows.options("counts");
  counts.width = workers;
  counts.consistency = model;
  auto opened = session.table<std::int64_t>(counts);
  RETURN_IF_ERROR(opened.status());
  Table<std::int64_t>& table = *opened;
  const consistency::Rules rules = consistency::rules_of(model);
  const bool bounded = rules.read_bound != consistency::kNoBound;
  // The rows that worker w pushes to at clock t are a function of (w, t), so that each worker knows what
  // others do.
  const auto pushes_to = [](std::uint32_t worker, std::int64_t clock, Key key) {
    return (key * 7919 + static_cast<Key>(clock) * 31 + worker * 17) % 3 != 0;
  };
  std::vector<std::vector<std::int64_t>> until(kRows, std::vector<std::int64_t>(workers, 0));
  std::mt19937_64 random(session.rank());
  std::vector<Key> all(kRows);
  for (Key key = 0; key < kRows; ++key) all[key] = key;
  std::vector<std::int64_t> own(kRows, 0);
  std::vector<std::int64_t> values(kRows * workers);

  const auto check = [&](std::int64_t clock, std::span<const Key> keys) -> absl::Status {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      for (std::uint32_t worker = 0; worker < workers; ++worker) {
        const std::int64_t seen = values[i * workers + worker];
        if (worker == session.rank()) {
          if (seen != own[keys[i]]) {
            return wrong("own updates: key " + std::to_string(keys[i]) + " clock " + std::to_string(clock) +
                         " saw " + std::to_string(seen) + " of " + std::to_string(own[keys[i]]));
          }
          continue;
        }
        // At least all updates of clocks below the min clock that is needed; at most all that can have been
        // made.
        std::int64_t least = 0;
        std::int64_t most = 0;
        for (std::int64_t t = 0; t < clocks; ++t) {
          const std::int64_t made = pushes_to(worker, t, keys[i]) ? 2 : 0;
          if (t < consistency::min_clock_needed(rules.read_bound, clock)) least += made;
          // BSP: nothing of others from `clock` on. SSP: nobody can have finished more than staleness + 1
          // further clocks.
          const std::int64_t ahead =
              !bounded || rules.holds_updates_back ? 0 : rules.read_bound + 1 + (within_clocks ? 1 : 0);
          if (!bounded || t < clock + ahead) most += made;
        }
        if (seen < least || seen > most) {
          return wrong("key " + std::to_string(keys[i]) + " of worker " + std::to_string(worker) +
                       " at clock " + std::to_string(clock) + " saw " + std::to_string(seen) + ", expected " +
                       std::to_string(least) + " to " + std::to_string(most));
        }
      }
    }
    return absl::OkStatus();
  };

  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    if (session.current_clock() != clock) return wrong("clock");
    std::vector<Key> mine;
    for (const Key key : all) {
      if (pushes_to(session.rank(), clock, key)) mine.push_back(key);
    }
    std::shuffle(mine.begin(), mine.end(), random);
    std::vector<std::int64_t> updates(mine.size() * workers, 0);
    for (std::size_t i = 0; i < mine.size(); ++i) updates[i * workers + session.rank()] = 1;
    for (int half = 0; half < 2; ++half) {
      RETURN_IF_ERROR(table.push(rows.keys(mine), updates));
      for (const Key key : mine) ++own[key];
      if (random() % 2 == 0) {
        RETURN_IF_ERROR(table.pull(rows.everything(), values));
        RETURN_IF_ERROR(check(clock, all));
      } else {
        std::shuffle(all.begin(), all.end(), random);
        RETURN_IF_ERROR(table.pull(rows.keys(all), values));
        RETURN_IF_ERROR(check(clock, all));
        std::sort(all.begin(), all.end());
      }
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
    RETURN_IF_ERROR(session.clock());
  }
  RETURN_IF_ERROR(session.barrier());
  RETURN_IF_ERROR(table.pull(rows.everything(), values));
  for (Key key = 0; key < kRows; ++key) {
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      std::int64_t expected = 0;
      for (std::int64_t t = 0; t < clocks; ++t) expected += pushes_to(worker, t, key) ? 2 : 0;
      if (values[key * workers + worker] != expected) return wrong("an update was lost or applied twice");
    }
  }
  const StalenessHistogram& histogram = table.staleness();
  for (std::size_t lag = 0; lag < histogram.reads_by_lag.size(); ++lag) {
    if (bounded && histogram.reads_by_lag[lag] > 0 && static_cast<std::int64_t>(lag) > rules.read_bound) {
      return wrong("read with lag " + std::to_string(lag));
    }
  }
  return absl::OkStatus();
}

namespace {

/// What a worker adds. The sizes differ so much that the order of additions shows in a sum of floats.
float update_of(std::uint32_t worker, std::int64_t clock, Key key, std::uint32_t column, int part) {
  std::mt19937_64 random(worker * 1000003 + static_cast<std::uint64_t>(clock) * 97 + key * 31 + column * 7 +
                         static_cast<std::uint64_t>(part));
  return std::ldexp(static_cast<float>(random() % 100003) - 50000.0F, static_cast<int>(random() % 20) - 10);
}

}  // namespace

absl::Status check_sequential(Session& session, std::int64_t clocks, KeySpace key_space) {
  constexpr std::uint64_t kRows = 23;
  constexpr std::uint32_t kWidth = 5;
  const TestRows rows(key_space, kRows);
  TableOptions sums = rows.options("sums");
  sums.width = kWidth;
  sums.consistency = Bsp{};
  auto table = session.table<float>(sums);
  RETURN_IF_ERROR(table.status());
  std::mt19937_64 random(session.rank());
  std::vector<float> row(kWidth);
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    for (int part = 0; part < 2; ++part) {
      for (Key key = 0; key < kRows; ++key) {
        for (std::uint32_t column = 0; column < kWidth; ++column) {
          row[column] = update_of(session.rank(), clock, key, column, part);
        }
        const Key pushed = rows.key(key);
        RETURN_IF_ERROR(table->push(std::span(&pushed, 1), row));
      }
    }
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    RETURN_IF_ERROR(session.clock());
  }
  std::vector<float> values(kRows * kWidth);
  RETURN_IF_ERROR(table->pull(rows.everything(), values));

  std::vector<float> expected(kRows * kWidth, 0);
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    for (std::uint32_t worker = 0; worker < session.workers(); ++worker) {
      for (Key key = 0; key < kRows; ++key) {
        for (std::uint32_t column = 0; column < kWidth; ++column) {
          // The two pushes of a clock are added up before they are sent.
          expected[key * kWidth + column] +=
              update_of(worker, clock, key, column, 0) + update_of(worker, clock, key, column, 1);
        }
      }
    }
  }
  return values == expected ? absl::OkStatus() : wrong("sums differ from the sequential ones");
}

OwnCounts::OwnCounts(const Session& session, Table<std::int64_t>& table, std::uint64_t rows)
    : table_(table),
      me_(session.rank()),
      pushed_(rows == 0 ? table.rows() : rows, 0),
      seen_(pushed_.size() * table.width(), 0) {}

std::vector<std::int64_t> OwnCounts::count(std::span<const Key> keys) {
  std::vector<std::int64_t> updates(keys.size() * table_.width(), 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    updates[i * table_.width() + me_] = 1;
    ++pushed_[keys[i]];
  }
  return updates;
}

absl::Status OwnCounts::check(std::span<const Key> keys) {
  const std::uint32_t width = table_.width();
  std::vector<std::int64_t> values(keys.size() * width, -1);
  RETURN_IF_ERROR(table_.pull(keys, values));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::uint32_t worker = 0; worker < width; ++worker) {
      const std::int64_t value = values[i * width + worker];
      const std::int64_t before = seen_[keys[i] * width + worker];
      if (value < before || (worker == me_ && value != pushed_[keys[i]])) {
        return wrong(fmt::format("worker {} reads {} of worker {} at key {}, after {}; it has pushed {}", me_,
                                 value, worker, keys[i], before, pushed_[keys[i]]));
      }
    }
  }
  // Of a key that occurs twice, the first result may be the newer one (<verbena/table.hpp>).
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::uint32_t worker = 0; worker < width; ++worker) {
      std::int64_t& seen = seen_[keys[i] * width + worker];
      seen = std::max(seen, values[i * width + worker]);
    }
  }
  return absl::OkStatus();
}

absl::Status OwnCounts::check_all() {
  const std::uint32_t width = table_.width();
  std::vector<std::int64_t> all(pushed_.size() * width);
  RETURN_IF_ERROR(table_.pull(KeyRange{0, pushed_.size()}, all));
  for (Key key = 0; key < pushed_.size(); ++key) {
    if (all[key * width + me_] != pushed_[key])
      return wrong(fmt::format("key {} holds {} of {}", key, all[key * width + me_], pushed_[key]));
  }
  return absl::OkStatus();
}

absl::Status check_end_by_name(const ClusterResult& result, std::string_view name) {
  for (const absl::Status& worker : result.workers) {
    if (!absl::IsUnavailable(worker) && !absl::IsAborted(worker))
      return wrong("a worker was not told of the end: " + worker.ToString());
  }
  const std::string first = result.workers.front().ToString();
  return first.find(name) == std::string::npos ? wrong(first + " does not name who is gone")
                                               : absl::OkStatus();
}

}  // namespace verbena::testing
