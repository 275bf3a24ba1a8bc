// What a worker makes of the regions that a server announces, honest or not.
#include "worker/fixed/sparse_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "protocol/sparse_memory.hpp"
#include "tests/key_with_hash.hpp"
#include "worker/fixed/part.hpp"

namespace verbena::worker {
namespace {

using protocol::RegionAdded;
using protocol::RegionKind;

constexpr std::size_t kViewedStride = 16;

RegionAdded region(RegionKind kind, std::uint32_t number, std::uint64_t items) {
  return {.kind = kind,
          .number = number,
          .items = items,
          .memory = {std::uint64_t{number + 1} << 32, protocol::region_bytes(kind, items, kViewedStride), 7}};
}

/// Maps regions at `memory`, if there is any.
class ViewedConnection final : public transport::Connection {
 public:
  absl::StatusOr<transport::RemoteDescriptor> grant(const transport::MemoryRegion& /*region*/) override {
    return absl::UnimplementedError("");
  }
  std::size_t do_post(std::span<const transport::WorkRequest> requests) override { return requests.size(); }
  const std::byte* mapped(const transport::RemoteDescriptor& /*remote*/) override { return memory; }
  [[nodiscard]] const absl::Status& status() const override { return status_; }

  const std::byte* memory = nullptr;

 private:
  absl::Status status_;
};

class SparseViewTest : public ::testing::Test {
 protected:
  std::string add(const RegionAdded& added) { return std::string(view_.add(added, connection_).message()); }

  ViewedConnection connection_;
  SparseView view_{protocol::HashedKeys(KeyRange{0, 100}), kViewedStride, 100};
};

TEST_F(SparseViewTest, ItemsAreInTheRegionsOfTheirNumbers) {
  EXPECT_EQ(add(region(RegionKind::kRoot, 0, 1)), "");
  EXPECT_EQ(add(region(RegionKind::kSegments, 0, 4)), "");
  EXPECT_EQ(add(region(RegionKind::kSegments, 1, 4)), "");
  EXPECT_EQ(add(region(RegionKind::kRows, 0, 8)), "");
  EXPECT_FALSE(view_.is_mapped());
  EXPECT_EQ(view_.buckets_of(6, 3, 2)->address,
            (std::uint64_t{2} << 32) + 2 * sizeof(protocol::IndexSegment) + 3 * 64);
  EXPECT_EQ(view_.buckets_of(6, 3, 2)->length_bytes, 128U);
  EXPECT_FALSE(view_.buckets_of(8, 0, 2).has_value()) << "of a region to come";
  EXPECT_EQ(view_.row_of(protocol::Row{5})->address, (std::uint64_t{1} << 32) + 5 * (8 + kViewedStride));
  EXPECT_FALSE(view_.row_of(protocol::Row{8}).has_value());
  EXPECT_EQ(view_.directory_of(3)->address, (std::uint64_t{1} << 32) + 8 * 8);
  EXPECT_FALSE(view_.directory_of(13).has_value());
  EXPECT_EQ(add(region(RegionKind::kDirectory, 13, 1U << 13U)), "");
  EXPECT_EQ(view_.directory_of(13)->length_bytes, 8U << 13U);
}

TEST_F(SparseViewTest, RegionsThatDoNotFitAreRefused) {
  const auto refused = ::testing::HasSubstr("added region");
  EXPECT_EQ(add(region(RegionKind::kRoot, 0, 1)), "");
  EXPECT_THAT(add(region(RegionKind::kRoot, 1, 1)), refused);
  EXPECT_THAT(add(region(RegionKind::kRows, 1, 8)), refused) << "the first one is missing";
  EXPECT_EQ(add(region(RegionKind::kRows, 0, 8)), "");
  EXPECT_THAT(add(region(RegionKind::kRows, 1, 16)), refused) << "others have 8 rows";
  EXPECT_THAT(add(region(RegionKind::kRows, 0, 8)), refused) << "once more";
  RegionAdded small = region(RegionKind::kRows, 1, 8);
  small.memory.length_bytes -= 8;
  EXPECT_THAT(add(small), refused);
  EXPECT_THAT(add(region(RegionKind::kDirectory, 12, 1U << 12U)), refused) << "the root has it";
  EXPECT_THAT(add(region(RegionKind::kDirectory, 13, 1U << 12U)), refused);
  RegionAdded endless = region(RegionKind::kSegments, 0, 4);
  endless.items = std::uint64_t{1} << 62;  // whose bytes are 0, as far as 64 bits go
  endless.memory.length_bytes = protocol::region_bytes(endless.kind, endless.items, kViewedStride);
  EXPECT_THAT(add(endless), refused);
}

TEST_F(SparseViewTest, ARegionThatIsGoneIsWaitedFor) {
  alignas(64) static std::byte memory[64] = {};
  connection_.memory = memory;
  EXPECT_EQ(add(region(RegionKind::kRoot, 0, 1)), "");
  EXPECT_TRUE(view_.is_mapped());
  connection_.memory = memory + 8;
  EXPECT_THAT(add(region(RegionKind::kRows, 0, 4)), ::testing::HasSubstr("at an address"));
  connection_.memory = nullptr;
  EXPECT_EQ(add(region(RegionKind::kRows, 0, 4)), "");
  EXPECT_EQ(view_.row(protocol::Row{1}), nullptr);
  view_.read_from_afar();
  EXPECT_FALSE(view_.is_mapped());
}

TEST_F(SparseViewTest, APartHasTheKeysOfItsHashes) {
  Part part;
  part.range = protocol::RowRange(KeyRange{0, kNoKey});
  part.sparse = std::make_unique<SparseView>(protocol::HashedKeys(KeyRange{5, 7}), kViewedStride, 100);
  const auto key_of = [](std::uint64_t hashes) { return testing::key_with_hash(hashes << 52 | 12345); };
  EXPECT_FALSE(part.has(key_of(4)));
  EXPECT_TRUE(part.has(key_of(5)));
  EXPECT_TRUE(part.has(key_of(6)));
  EXPECT_FALSE(part.has(key_of(7)));
  EXPECT_THAT(std::string(part.wrong_record(key_of(7)).message()),
              ::testing::HasSubstr("part 7, expected 5 to"));
  EXPECT_FALSE(protocol::HashedKeys(KeyRange{0, 4096}).has(kNoKey));
}

TEST_F(SparseViewTest, NoMoreRowsAreKnownThanAllowed) {
  for (Key key = 1; key <= 300; ++key) view_.know_row(key, protocol::Row{key * 2});
  int known = 0;
  for (Key key = 1; key <= 300; ++key) {
    const auto row = view_.known_row(key);
    known += row ? 1 : 0;
    EXPECT_TRUE(!row || *row == protocol::Row{key * 2});
  }
  EXPECT_EQ(known, 100);
  EXPECT_TRUE(view_.known_row(300).has_value());
  view_.forget_row(300);
  EXPECT_FALSE(view_.known_row(300).has_value());
}

/// Directories of all depths that there can be; no more.
TEST_F(SparseViewTest, DirectoriesEndWithTheBitsOfAHash) {
  EXPECT_EQ(add(region(RegionKind::kRoot, 0, 1)), "");
  for (std::uint32_t depth = protocol::kRootDepth + 1; depth <= protocol::KeyHash::kSegmentBits; ++depth)
    EXPECT_EQ(add(region(RegionKind::kDirectory, depth, std::uint64_t{1} << depth)), "");
  const std::uint32_t beyond = protocol::KeyHash::kSegmentBits + 1;
  EXPECT_THAT(add(region(RegionKind::kDirectory, beyond, std::uint64_t{1} << beyond)),
              ::testing::HasSubstr("added region"));
}

}  // namespace
}  // namespace verbena::worker
