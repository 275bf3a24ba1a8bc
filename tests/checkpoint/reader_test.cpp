#include "checkpoint/reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"

namespace verbena::checkpoint {
namespace {

using ::testing::HasSubstr;

/// Parameter: the level of zstd.
class ReaderTest : public ::testing::TestWithParam<int> {
 protected:
  ReaderTest() {
    Folder folder(disk_, "ckpts");
    EXPECT_EQ(write_checkpoint(disk_, folder, 20, content_, {.zstd_level = GetParam()}), absl::OkStatus());
  }
  [[nodiscard]] Reader reader() { return Reader::open(disk_, "ckpts/ckpt-20").value(); }

  const Content content_ = content_of(3);
  SimulatedDisk disk_;
};
INSTANTIATE_TEST_SUITE_P(Compression, ReaderTest, ::testing::Values(0, 1, 19));

TEST_P(ReaderTest, AnyNumberOfServersFindTheirRows) {
  for (const std::uint64_t servers : {1U, 2U, 3U, 5U, 20U}) {
    Content all;
    for (std::uint64_t server = 0; server < servers; ++server) {
      const auto part = [&](std::uint64_t size) {
        return NumberRange{size * server / servers, size * (server + 1) / servers};
      };
      Content own = load(reader(), part(kDenseRows), part(16)).value();
      EXPECT_EQ(own.dense.size(), part(kDenseRows).end - part(kDenseRows).first);
      for (const auto& [key, row] : own.sparse) EXPECT_LT(number_of_key(key), part(16).end);
      const std::size_t before = all.dense.size() + all.sparse.size();
      all.dense.merge(own.dense);
      all.sparse.merge(own.sparse);
      EXPECT_EQ(own.dense.size() + own.sparse.size(), 0U) << "rows of two servers, after " << before;
    }
    EXPECT_EQ(all.dense, content_.dense) << servers;
    EXPECT_EQ(all.sparse, content_.sparse) << servers;
  }
}

TEST_P(ReaderTest, EachRangeHasItsRows) {
  const Reader open = reader();
  for (std::uint64_t first = 0; first <= kDenseRows; ++first) {
    for (std::uint64_t end = first; end <= kDenseRows + 2; ++end) {
      const Content found = load(open, {first, end}, {0, 0}).value();
      Content expected;
      for (const auto& [row, bytes] : content_.dense) {
        if (row >= first && row < end) expected.dense[row] = bytes;
      }
      ASSERT_EQ(found.dense, expected.dense) << first << " to " << end;
    }
  }
  EXPECT_TRUE(load(open, {UINT64_MAX - 1, UINT64_MAX}, {0, 0})->dense.empty());
  EXPECT_TRUE(load(open, {5, 4}, {0, 0})->dense.empty());
}

TEST_P(ReaderTest, BlobsComeByName) {
  const Reader open = reader();
  const auto bytes = open.read_blob("worker-0").value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            content_.blobs.at("worker-0"));
  EXPECT_TRUE(open.read_blob("worker-0/empty")->empty());
  EXPECT_EQ(open.read_blob("worker-1").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(ReaderTest, StopsWhenTheCallerDoes) {
  int calls = 0;
  const absl::Status status = reader().read_rows(kDenseTable, {0, kDenseRows}, [&](const Rows& /*rows*/) {
    ++calls;
    return absl::CancelledError("enough");
  });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(calls, 1);
}

TEST_P(ReaderTest, RowsComeAChunkAtATime) {
  const Reader open = reader();
  // Both at once, as a server loads its tables by turns.
  RowReader dense = open.rows(kDenseTable, {3, 18});
  RowReader sparse = open.rows(kSparseTable, {0, 16});
  std::map<std::uint64_t, std::string> found;
  std::size_t chunks = 0;
  std::uint64_t keys = 0;
  for (bool goes_on = true; goes_on;) {
    const auto rows = dense.next();
    ASSERT_TRUE(rows.ok()) << rows.status();
    const auto others = sparse.next();
    ASSERT_TRUE(others.ok()) << others.status();
    goes_on = rows->has_value() || others->has_value();
    if (others->has_value()) keys += (*others)->count;
    if (!rows->has_value()) continue;
    ++chunks;
    for (std::uint64_t i = 0; i < (*rows)->count; ++i) {
      std::string& row = found[(*rows)->numbers.first + i];
      for (const Column& column : (*rows)->columns) {
        const auto bytes = column.bytes.subspan(i * column.row_bytes, column.row_bytes);
        row.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
    }
  }
  EXPECT_EQ(found, load(open, {3, 18}, {0, 0})->dense);
  EXPECT_EQ(found.size(), 15U);
  EXPECT_EQ(keys, content_.sparse.size());
  EXPECT_GT(chunks, 1U);
  EXPECT_FALSE(dense.next()->has_value()) << "it stays at its end";
}

TEST_P(ReaderTest, RowsSayHowManyBytesTheyTake) {
  const Reader open = reader();
  std::uint64_t all = 0;
  std::uint64_t last = 0;
  for (const Part& part : open.manifest().parts) {
    for (const DataFile& file : part.files) {
      for (const ChunkEntry& chunk : file.chunks) {
        if (chunk.kind != ChunkKind::kRows) continue;
        all += chunk.bytes;
        if (chunk.last == kDenseRows - 1) last = chunk.bytes;
      }
    }
  }
  EXPECT_EQ(open.rows(kDenseTable, {0, kDenseRows}).bytes(), all);
  EXPECT_EQ(open.rows(kDenseTable, {kDenseRows - 1, UINT64_MAX}).bytes(), last);
  EXPECT_EQ(open.rows(kDenseTable, {kDenseRows, UINT64_MAX}).bytes(), 0U);
}

TEST_P(ReaderTest, ADamagedChunkIsAnErrorEachTime) {
  const Reader open = reader();
  RowReader rows = open.rows(kDenseTable, {0, kDenseRows});
  const DataFile& file = open.manifest().parts[1].files[0];
  disk_.bytes_of("ckpts/ckpt-20/" + file.name)[file.chunks[0].offset + sizeof(ChunkHeader)] ^= 1;
  ASSERT_TRUE(rows.next().ok()) << "it is another server's";
  for (int i = 0; i < 2; ++i) {
    const absl::Status damaged = rows.next().status();
    EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(damaged.message()), HasSubstr("ckpts/ckpt-20/server-1: offset 32: expected"));
  }
}

TEST_P(ReaderTest, ATableThatIsNotThereHasNoRows) {
  EXPECT_EQ(reader().read_rows(99, {0, UINT64_MAX},
                               [](const Rows& /*rows*/) { return absl::InternalError("rows"); }),
            absl::OkStatus());
}

TEST_P(ReaderTest, WithoutManifestOrWithoutAFileItDoesNotOpen) {
  ASSERT_EQ(disk_.remove_file("ckpts/ckpt-20/server-1.1"), absl::OkStatus());
  const absl::Status without_file = Reader::open(disk_, "ckpts/ckpt-20").status();
  EXPECT_EQ(without_file.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(without_file.message()), HasSubstr("ckpts/ckpt-20/server-1.1"));
  ASSERT_EQ(disk_.remove_file("ckpts/ckpt-20/manifest.json"), absl::OkStatus());
  const absl::Status without_manifest = Reader::open(disk_, "ckpts/ckpt-20").status();
  EXPECT_EQ(without_manifest.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(without_manifest.message()), HasSubstr("ckpts/ckpt-20/manifest.json"));
}

}  // namespace
}  // namespace verbena::checkpoint
