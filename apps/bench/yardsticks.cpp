#include "apps/bench/yardsticks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "apps/bench/output_places.hpp"
#include "base/prefetch.hpp"
#include "base/word_copy.hpp"
#include "protocol/update_rule.hpp"

namespace verbena::apps::bench {

namespace {

/// Keeps the compiler from leaving out a copy that nobody reads.
void use(const void* memory) {
  asm volatile("" : : "g"(memory) : "memory");
}

}  // namespace

Samples time_memcpy(const TimingOptions& options, std::size_t bytes) {
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  return time_plain(options, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    use(to.data());
  });
}

namespace {

/// In chunks of some rows: the other thread adds the first ones while the next are copied. `places`: chunks
/// for which the ring has room.
Samples time_ring(const TimingOptions& options, std::size_t chunk_floats, std::size_t chunks,
                  std::size_t places, std::vector<float>& table) {
  const std::vector<float> from(chunk_floats * chunks, 1);
  std::vector<float> ring(places * chunk_floats);
  table.assign(chunk_floats * chunks, 0);
  struct alignas(128) Position {
    std::atomic<std::uint64_t> chunks = 0;
  };
  Position copied;
  Position added;
  std::atomic<bool> stop = false;
  std::jthread other([&] {
    for (std::uint64_t next = 0;; ++next) {
      while (copied.chunks.load(std::memory_order_acquire) == next) {
        // Whatever was copied before `stop` is to be added first.
        if (stop.load(std::memory_order_acquire) && copied.chunks.load(std::memory_order_acquire) == next)
          return;
      }
      base::add_words(table.data() + next % chunks * chunk_floats, ring.data() + next % places * chunk_floats,
                      chunk_floats);
      added.chunks.store(next + 1, std::memory_order_release);
    }
  });
  const absl::Cleanup end_other = [&] { stop.store(true, std::memory_order_release); };
  std::uint64_t next = 0;
  TimingOptions single = options;
  single.batch_nanoseconds = 0;  // an operation is long enough to be timed by itself
  return time_plain(single, [&] {
    for (std::size_t i = 0; i < chunks; ++i, ++next) {
      while (next - added.chunks.load(std::memory_order_acquire) == places) {
      }
      std::memcpy(ring.data() + next % places * chunk_floats, from.data() + i * chunk_floats,
                  chunk_floats * sizeof(float));
      copied.chunks.store(next + 1, std::memory_order_release);
    }
  });
}

}  // namespace

Samples time_hand_over(const TimingOptions& options, std::size_t rows, std::size_t width,
                       std::vector<float>* sums) {
  constexpr std::size_t kChunks = 10;
  constexpr std::size_t kPlaces[] = {4, 10, 20, 100};
  Samples best;
  std::vector<float> table;
  for (const std::size_t places : kPlaces) {
    Samples samples = time_ring(options, rows / kChunks * width, kChunks, places, table);
    if (!best.empty() && samples.percentile(0.5) >= best.percentile(0.5)) continue;
    best = std::move(samples);
    if (sums != nullptr) *sums = table;
  }
  return best;
}

Samples time_answers(const TimingOptions& options, std::size_t asked, std::size_t answered,
                     std::vector<float>* last) {
  assert(asked <= kMostFloatsOfAnswer && answered <= kMostFloatsOfAnswer);
  // A few floats lie in the same cache line as the word that tells of them.
  struct alignas(128) Mail {
    std::atomic<std::uint64_t> number = 0;
    std::array<float, kMostFloatsOfAnswer> floats = {};
  };
  Mail question;
  Mail answer;
  std::jthread other([&] {
    alignas(128) std::array<float, kMostFloatsOfAnswer> row = {};
    row.fill(1);
    for (std::uint64_t next = 1;; ++next) {
      std::uint64_t seen = 0;
      while ((seen = question.number.load(std::memory_order_acquire)) != next) {
        if (seen == UINT64_MAX) return;
      }
      base::add_words(row.data(), question.floats.data(), asked);
      base::copy_words(answer.floats.data(), row.data(), answered);
      answer.number.store(next, std::memory_order_release);
    }
  });
  const absl::Cleanup end_other = [&] { question.number.store(UINT64_MAX, std::memory_order_release); };
  std::array<float, kMostFloatsOfAnswer> update = {};
  update.fill(1);
  std::array<float, kMostFloatsOfAnswer> values = {};
  std::uint64_t number = 0;
  Samples samples = time_plain(options, [&] {
    ++number;
    base::copy_words(question.floats.data(), update.data(), asked);
    question.number.store(number, std::memory_order_release);
    while (answer.number.load(std::memory_order_acquire) != number) {
    }
    base::copy_words(values.data(), answer.floats.data(), answered);
    use(values.data());
  });
  if (last != nullptr) last->assign(values.data(), values.data() + answered);
  return samples;
}

Samples time_row_additions(const TimingOptions& options, std::span<const std::uint64_t> keys,
                           std::size_t width, std::vector<float>* sums) {
  const std::uint64_t rows = *std::max_element(keys.begin(), keys.end()) + 1;
  std::vector<float> table(rows * width);
  const std::vector<float> update(width, 1);
  std::size_t next = 0;
  Samples samples = time_plain(options, [&] {
    base::add_words(table.data() + keys[next] * width, update.data(), width);
    use(table.data());
    if (++next == keys.size()) next = 0;
  });
  if (sums != nullptr) *sums = std::move(table);
  return samples;
}

Samples time_row_copies(const TimingOptions& options, std::span<const std::uint64_t> keys,
                        std::size_t keys_each, std::size_t row_bytes) {
  const std::uint64_t rows = *std::max_element(keys.begin(), keys.end()) + 1;
  const std::vector<std::byte> from(rows * row_bytes, std::byte{1});
  OutputPlaces places(keys_each * row_bytes);
  std::size_t next = 0;
  return time_plain(options, [&] {
    std::byte* const to = places.next();
    for (std::size_t i = 0; i < keys_each; ++i) {
      std::memcpy(to + i * row_bytes, from.data() + keys[next + i] * row_bytes, row_bytes);
    }
    use(to);
    next += keys_each;
    if (next + keys_each > keys.size()) next = 0;
  });
}

Samples time_map_reads(const TimingOptions& options, std::span<const std::uint64_t> keys,
                       std::size_t keys_each, std::size_t row_bytes) {
  absl::flat_hash_map<std::uint64_t, std::uint32_t> row_of;
  for (const std::uint64_t key : keys) row_of.try_emplace(key, static_cast<std::uint32_t>(row_of.size()));
  const std::vector<std::byte> from(row_of.size() * row_bytes, std::byte{1});
  OutputPlaces places(keys_each * row_bytes);
  // In another order than that in which the rows were made.
  std::vector<std::uint64_t> order(keys.begin(), keys.end());
  std::shuffle(order.begin(), order.end(), std::mt19937_64(2));
  std::size_t next = 0;
  return time_plain(options, [&] {
    std::byte* const to = places.next();
    for (std::size_t i = 0; i < keys_each; ++i) {
      std::memcpy(to + i * row_bytes, from.data() + row_of.find(order[next + i])->second * row_bytes,
                  row_bytes);
    }
    use(to);
    next += keys_each;
    if (next + keys_each > order.size()) next = 0;
  });
}

absl::StatusOr<Samples> time_steps(const TimingOptions& options, std::string_view rule, std::uint32_t width,
                                   std::span<const std::uint64_t> keys, std::size_t keys_each) {
  const auto found = protocol::UpdateRule::find(rule, ValueType::kFloat, width);
  if (!found.ok()) return found.status();
  const std::uint64_t rows = *std::max_element(keys.begin(), keys.end()) + 1;
  const std::size_t state_words = found->state_bytes() / sizeof(double);
  std::vector<float> values(rows * width);
  std::vector<double> states(rows * state_words);
  const std::vector<float> gradient(width, 0.5F);
  std::vector<std::uint64_t> order(keys.begin(), keys.end());
  order.insert(order.end(), base::kKeysAhead, 0);
  std::size_t next = 0;
  return time_plain(options, [&] {
    for (std::size_t i = next; i < next + keys_each; ++i) {
      const std::uint64_t ahead = order[i + base::kKeysAhead];
      base::prefetch_to_write(values.data() + ahead * width);
      if (state_words > 0) base::prefetch_to_write(states.data() + ahead * state_words);
      found->apply(reinterpret_cast<std::byte*>(values.data() + order[i] * width),
                   reinterpret_cast<std::byte*>(states.data() + order[i] * state_words),
                   reinterpret_cast<const std::byte*>(gradient.data()));
    }
    use(values.data());
    next += keys_each;
    if (next + keys_each > keys.size()) next = 0;
  });
}

Samples time_core_round_trip(const TimingOptions& options) {
  struct alignas(128) Line {
    std::atomic<std::uint64_t> value = 0;
  };
  Line line;
  std::jthread other([&] {
    for (std::uint64_t odd = 1;; odd += 2) {
      std::uint64_t seen = 0;
      while ((seen = line.value.load(std::memory_order_acquire)) != odd) {
        if (seen == UINT64_MAX) return;
      }
      line.value.store(odd + 1, std::memory_order_release);
    }
  });
  const absl::Cleanup end_other = [&] { line.value.store(UINT64_MAX, std::memory_order_release); };
  std::uint64_t even = 0;
  return time_plain(options, [&] {
    line.value.store(even + 1, std::memory_order_release);
    while (line.value.load(std::memory_order_acquire) != even + 2) {
    }
    even += 2;
  });
}

}  // namespace verbena::apps::bench
