// The index of a sparse table, as its lane writes it and as readers see it meanwhile.
#include "server/sparse_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "tests/key_with_hash.hpp"

namespace verbena::server {
namespace {

using protocol::DirectoryEntry;
using protocol::IndexAnswer;
using protocol::IndexSegment;
using protocol::KeyHash;
using protocol::Row;
using verbena::testing::key_with_hash;

/// Segments, directories, and the keys of rows. Nothing is given back, so that readers may stay anywhere.
class TestMemory final : public SparseIndex::Memory {
 public:
  explicit TestMemory(std::size_t rows, std::size_t most_segments = 10'000)
      : keys_(rows), most_segments_(most_segments), segments_(most_segments) {}

  absl::StatusOr<NewSegment> add_segment() override {
    if (count_ == most_segments_) return absl::ResourceExhaustedError("no segment left");
    const std::uint32_t number = count_++;
    segments_[number] = std::make_unique<IndexSegment>();
    return NewSegment{.number = number, .memory = segments_[number].get()};
  }
  void retire_segment(std::uint32_t /*number*/) override { ++retired_; }
  absl::StatusOr<std::span<std::uint64_t>> add_directory(std::size_t entries) override {
    return directories_.emplace_back(entries);
  }
  void prefetch_key(Row /*row*/) const override {}
  void publish_directory() override { newest_.store(&directories_.back(), std::memory_order_release); }
  [[nodiscard]] Key key_of(Row row) const override {
    return keys_[index_of(row)].load(std::memory_order_relaxed);
  }

  void set_key(Row row, Key key) { keys_[index_of(row)].store(key, std::memory_order_relaxed); }
  [[nodiscard]] std::size_t retired() const { return retired_; }

  /// A reader's copy of the directory.
  using Directory = std::vector<std::uint64_t>;
  [[nodiscard]] Directory copy_directory() const {
    Directory copy;
    for (std::uint64_t& word : *newest_.load(std::memory_order_acquire))
      copy.push_back(std::atomic_ref(word).load(std::memory_order_acquire));
    return copy;
  }
  /// What a reader sees, who copies the directory again only if a segment is retired.
  IndexAnswer look_up(Key key, Directory& directory) const {
    const KeyHash hash(key);
    for (;; directory = copy_directory()) {
      const auto depth = static_cast<std::uint32_t>(std::countr_zero(directory.size()));
      const std::uint32_t segment = DirectoryEntry::segment(directory[hash.segment_bits(depth)]);
      const IndexAnswer answer =
          protocol::look_up(*segments_[segment], hash, [&](Row row) { return key_of(row) == key; });
      if (answer.kind != IndexAnswer::Kind::kRetired) return answer;
    }
  }
  [[nodiscard]] IndexAnswer look_up(Key key) const {
    Directory directory = copy_directory();
    return look_up(key, directory);
  }

 private:
  std::vector<std::atomic<Key>> keys_;
  const std::size_t most_segments_;
  std::vector<std::unique_ptr<IndexSegment>> segments_;
  std::uint32_t count_ = 0;
  std::size_t retired_ = 0;
  std::deque<std::vector<std::uint64_t>> directories_;
  std::atomic<std::vector<std::uint64_t>*> newest_ = nullptr;
};

/// An index whose rows are given out in order, and again when they are free.
class Indexed {
 public:
  absl::Status insert(Key key) {
    const Row row = free_.empty() ? Row{next_++} : free_.back();
    memory_.set_key(row, key);
    const absl::Status status = index_.insert(KeyHash(key), row);
    if (!status.ok()) return status;
    if (!free_.empty()) free_.pop_back();
    rows_[key] = row;
    return status;
  }
  void erase(Key key) {
    const Row row = rows_.at(key);
    EXPECT_TRUE(index_.erase(KeyHash(key), row));
    memory_.set_key(row, kNoKey);
    free_.push_back(row);
    rows_.erase(key);
  }
  /// Both the lane and a reader find exactly the keys that are there.
  void check(Key key) const {
    const auto found = rows_.find(key);
    for (const IndexAnswer& answer : {index_.find(KeyHash(key), key), memory_.look_up(key)}) {
      ASSERT_EQ(answer.kind == IndexAnswer::Kind::kFound, found != rows_.end()) << key;
      if (found != rows_.end()) {
        ASSERT_EQ(answer.row, found->second) << key;
      }
    }
  }
  [[nodiscard]] const SparseIndex& index() const { return index_; }
  [[nodiscard]] const TestMemory& memory() const { return memory_; }

 private:
  TestMemory memory_{200'000};
  SparseIndex index_ = SparseIndex::create(memory_).value();
  std::unordered_map<Key, Row> rows_;
  std::vector<Row> free_;
  std::uint64_t next_ = 0;
};

TEST(KeyHashTest, EachBitHasItsPlace) {
  const auto with = [](std::uint64_t bits) { return KeyHash(key_with_hash(bits)); };
  EXPECT_EQ(with(0xABC0000000000000).part(), 0xABC);
  EXPECT_EQ(with(std::uint64_t{0x1FF} << 42).bucket(), 0x1FF);
  EXPECT_EQ(with(std::uint64_t{1} << 41).segment_bits(1), 1);
  EXPECT_EQ(with(std::uint64_t{1} << 41).segment_bits(26), 1U << 25);
  EXPECT_EQ(with(std::uint64_t{1} << 16).segment_bits(26), 1);
  EXPECT_EQ(with(std::uint64_t{1} << 16).segment_bits(25), 0);
  EXPECT_EQ(with(~std::uint64_t{0}).segment_bits(0), 0);
  EXPECT_EQ(with(std::uint64_t{1} << 41).segment_byte(0), 0x80);
  EXPECT_EQ(with(std::uint64_t{1} << 33).segment_byte(1), 0x80);
  EXPECT_EQ(with(std::uint64_t{1} << 16).segment_byte(3), 0x40);
  EXPECT_EQ(with(0).tag(), 1) << "no entry is 0";
  EXPECT_EQ(with(0x1234).tag(), 0x1234);
}

TEST(SparseIndexTest, FindsWhatIsThereAndNothingElse) {
#ifdef VERBENA_SANITIZED
  constexpr std::size_t kKeys = 30'000;
#else
  constexpr std::size_t kKeys = 100'000;
#endif
  Indexed indexed;
  std::mt19937_64 random(1);
  std::vector<Key> keys;
  while (keys.size() < kKeys) {
    keys.push_back(random());
    ASSERT_TRUE(indexed.insert(keys.back()).ok());
  }
  EXPECT_EQ(indexed.index().keys(), keys.size());
  for (const Key key : keys) indexed.check(key);
  for (std::size_t i = 0; i < kKeys; ++i) indexed.check(random());
  const std::size_t segments = indexed.index().segments();
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < keys.size(); i += 3) indexed.erase(keys[i]);
    for (const Key key : keys) indexed.check(key);
    for (std::size_t i = 0; i < keys.size(); i += 3) ASSERT_TRUE(indexed.insert(keys[i]).ok());
    for (const Key key : keys) indexed.check(key);
  }
  EXPECT_EQ(indexed.index().segments(), segments) << "places are used again";
  // 12 to 25 bytes a key, as segments are half to three quarters full.
  const double bytes = static_cast<double>(indexed.index().segments() * sizeof(IndexSegment)) /
                       static_cast<double>(keys.size());
  EXPECT_GT(bytes, 12);
  EXPECT_LT(bytes, 27);
  EXPECT_EQ(indexed.memory().retired(), indexed.index().segments() - 1);
}

TEST(SparseIndexTest, NeighbouringKeysAreSpreadOut) {
  Indexed indexed;
  for (Key key = 0; key < 50'000; ++key) ASSERT_TRUE(indexed.insert(key).ok());
  for (Key key = 0; key < 60'000; ++key) indexed.check(key);
  EXPECT_LE(indexed.index().segments(), 48);
}

/// All entries of one bucket: its own seven, seven of the next one, seven of the overflow bucket. Then the
/// segment is divided until the keys part, though they agree in their first segment bits.
TEST(SparseIndexTest, ABucketOverflowsAndIsDivided) {
  for (const std::uint32_t agreed : {0U, 6U, 7U, 8U}) {
    Indexed indexed;
    const std::uint64_t bucket = 100 + agreed;
    std::vector<Key> keys;
    for (std::uint64_t i = 0; i < 40; ++i) {
      // The bits after those that agree count up from the top: 40 keys need up to three more divisions.
      const std::uint64_t differing = (i & 7) << (41 - agreed - 2);
      keys.push_back(key_with_hash(bucket << 42 | differing | (i + 1)));
    }
    for (const Key key : keys) ASSERT_TRUE(indexed.insert(key).ok()) << agreed;
    for (const Key key : keys) indexed.check(key);
    for (const Key key : keys) indexed.check(key ^ 1);
    for (const Key key : keys) indexed.erase(key);
    for (const Key key : keys) indexed.check(key);
  }
}

TEST(SparseIndexTest, KeysThatNothingPartsAreRefused) {
  Indexed indexed;
  std::vector<Key> keys;
  absl::Status status;
  for (std::uint64_t i = 1; status.ok() && i < 100; ++i) {
    keys.push_back(key_with_hash(std::uint64_t{5} << 42 | i));  // one bucket, and one segment for ever
    status = indexed.insert(keys.back());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(keys.size(), 22) << "three buckets of seven";
  for (const Key key : keys) indexed.check(key);
}

TEST(SparseIndexTest, ARefusedSegmentChangesNothing) {
  for (const std::size_t most : {1U, 2U}) {
    TestMemory memory(100'000, most);
    SparseIndex index = SparseIndex::create(memory).value();
    Key key = 0;
    absl::Status status;
    for (; status.ok(); key += status.ok()) {
      memory.set_key(Row{key}, key);
      status = index.insert(KeyHash(key), Row{key});
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_GT(key, 2300);
    EXPECT_EQ(index.keys(), key);
    for (Key each = 0; each <= key; ++each)
      EXPECT_EQ(memory.look_up(each).kind == IndexAnswer::Kind::kFound, each < key) << each;
  }
  TestMemory none(1, 0);
  EXPECT_FALSE(SparseIndex::create(none).ok());
}

/// Readers never miss a key that stays, and never find one that is not there, while others come and go and
/// segments are divided.
TEST(SparseIndexTest, ReadersNeverMissAKeyThatStays) {
  Indexed indexed;
  constexpr Key kStaying = 1000;
  for (Key key = 0; key < kStaying; ++key) ASSERT_TRUE(indexed.insert(key).ok());
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> looked = 0;
  std::vector<std::jthread> readers;
  const absl::Cleanup end = [&] { stop = true; };
  for (std::uint64_t reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937_64 random(reader);
      while (!stop) {
        const Key staying = random() % kStaying;
        const IndexAnswer answer = indexed.memory().look_up(staying);
        if (answer.kind != IndexAnswer::Kind::kFound || answer.row != Row{staying}) ++wrong;
        if (indexed.memory().look_up(random() | Key{1} << 63).kind == IndexAnswer::Kind::kFound) ++wrong;
        ++looked;
      }
    });
  }
  std::mt19937_64 random(7);
  std::vector<Key> coming;
  for (int round = 0; round < 60'000 || looked < 1000; ++round) {
    coming.push_back(kStaying + random() % (Key{1} << 62));
    ASSERT_TRUE(indexed.insert(coming.back()).ok());
    if (round % 4 == 0) {
      std::swap(coming[random() % coming.size()], coming.back());
      indexed.erase(coming.back());
      coming.pop_back();
    }
  }
  stop = true;
  readers.clear();
  EXPECT_EQ(wrong, 0) << "of " << looked;
}

/// Few keys that meet in one bucket come and go, so that it overflows and its segment is divided. Each answer
/// of a reader must have been true at some moment while it read.
TEST(SparseIndexTest, EachAnswerWasTrueAtSomeMoment) {
  constexpr std::uint64_t kKeys = 48;
  constexpr int kRounds = 60;
  constexpr int kChanges = 400;
  std::vector<Key> keys;
  for (std::uint64_t i = 0; i < kKeys; ++i)
    keys.push_back(key_with_hash(std::uint64_t{77} << 42 | (i & 15) << 38 | (i + 1)));
  std::uint64_t checked = 0;
  for (int round = 0; round < kRounds; ++round) {
    TestMemory memory(kChanges);  // a row for each key that comes: none is used again while somebody reads
    SparseIndex index = SparseIndex::create(memory).value();
    std::vector<std::optional<Row>> now(kKeys);
    std::uint64_t rows = 0;
    // The state of all keys after so many changes; one more may be on its way.
    std::vector<std::vector<std::optional<Row>>> states = {now};
    std::atomic<std::size_t> changes = 0;
    struct Look {
      std::size_t key = 0;
      IndexAnswer answer;
      std::size_t changes_before = 0;
      std::size_t changes_after = 0;
    };
    std::vector<Look> looks;
    std::atomic<bool> is_reading = false;
    std::thread reader([&] {
      std::mt19937_64 random(static_cast<std::uint64_t>(round));
      TestMemory::Directory directory = memory.copy_directory();
      while (changes.load(std::memory_order_acquire) < kChanges) {
        Look look{.key = random() % kKeys, .changes_before = changes.load(std::memory_order_acquire)};
        look.answer = memory.look_up(keys[look.key], directory);
        // Orders the lookup before the count.
        std::atomic_thread_fence(std::memory_order_acquire);
        look.changes_after = changes.load(std::memory_order_acquire);
        looks.push_back(look);
        is_reading = true;
      }
    });
    while (!is_reading) std::this_thread::yield();
    std::mt19937_64 random(1000 + static_cast<std::uint64_t>(round));
    for (std::size_t change = 1; change <= kChanges; ++change) {
      const std::size_t key = random() % kKeys;
      if (now[key]) {
        EXPECT_TRUE(index.erase(KeyHash(keys[key]), *now[key]));
        memory.set_key(*now[key], kNoKey);
        now[key].reset();
      } else {
        now[key] = Row{rows++};
        memory.set_key(*now[key], keys[key]);
        EXPECT_TRUE(index.insert(KeyHash(keys[key]), *now[key]).ok());
      }
      states.push_back(now);
      changes.store(change, std::memory_order_release);
    }
    reader.join();
    for (const Look& look : looks) {
      bool was_true = false;
      const std::size_t last = std::min<std::size_t>(look.changes_after + 1, kChanges);
      for (std::size_t change = look.changes_before; change <= last; ++change) {
        const std::optional<Row>& state = states[change][look.key];
        was_true |= look.answer.kind == IndexAnswer::Kind::kFound ? state == look.answer.row : !state;
      }
      ASSERT_TRUE(was_true) << "round " << round << ", key " << look.key << ", after changes "
                            << look.changes_before << " to " << look.changes_after;
      ++checked;
    }
    EXPECT_GT(memory.retired(), 0) << "no segment was divided";
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace verbena::server
