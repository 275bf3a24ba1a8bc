// Checkpoints that hold only what has changed since the one before (checkpoint/layers.hpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checksum.hpp"
#include "checkpoint/chunk_reader.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/manifest_json.hpp"
#include "checkpoint/part_writer.hpp"
#include "checkpoint/verify.hpp"
#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"

namespace verbena::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// One with all rows at clock 10, and two increments. Some rows change each time, some once, some never; keys
/// come, go, and come again.
class IncrementTest : public ::testing::Test {
 protected:
  IncrementTest() {
    third_.sparse.erase(key(1));
    third_.sparse[key(2)] = "later1";
    EXPECT_EQ(write_checkpoint(disk_, folder_, 10, first_), absl::OkStatus());
    EXPECT_EQ(write_increment(disk_, folder_, 20, 10, first_, second_), absl::OkStatus());
    EXPECT_EQ(write_increment(disk_, folder_, 30, 20, second_, third_), absl::OkStatus());
  }

  static Content second_of(Content content) {
    content.dense[3] = "second";
    content.dense[17] = "other2";
    content.sparse[key(0)] = "second";
    content.sparse.erase(key(2));
    content.sparse[12345] = "newrow";
    content.blobs["worker-0"] = "second";
    return content;
  }
  static Content third_of(Content content) {
    content.dense[3] = "third.";
    content.sparse.erase(12345);
    content.blobs["worker-0"] = "third";
    return content;
  }
  /// One of those that content_of() has.
  static std::uint64_t key(std::size_t i) {
    const Content content = content_of(1);
    auto at = content.sparse.begin();
    std::advance(at, i);
    return at->first;
  }

  [[nodiscard]] Content at(std::uint64_t clock) {
    const auto reader = Reader::open(disk_, "ckpts/ckpt-" + std::to_string(clock));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? load(*reader).value() : Content();
  }
  [[nodiscard]] std::vector<std::uint64_t> complete() {
    std::vector<std::uint64_t> clocks;
    const Folder::Listing listing = folder_.list().value();
    for (const Folder::Complete& one : listing.complete) clocks.push_back(one.clock);
    return clocks;
  }

  const Content first_ = content_of(1);
  const Content second_ = second_of(first_);
  Content third_ = third_of(second_);
  SimulatedDisk disk_;
  Folder folder_{disk_, "ckpts"};
};

TEST_F(IncrementTest, ReadsAsIfItHadAllRows) {
  EXPECT_EQ(at(10), first_);
  EXPECT_EQ(at(20), second_);
  EXPECT_EQ(at(30), third_);
}

TEST_F(IncrementTest, AnyNumberOfServersFindTheirRows) {
  const Reader reader = Reader::open(disk_, "ckpts/ckpt-30").value();
  for (const std::uint64_t servers : {1U, 2U, 3U, 5U}) {
    Content all;
    for (std::uint64_t server = 0; server < servers; ++server) {
      const auto part = [&](std::uint64_t size) {
        return NumberRange{size * server / servers, size * (server + 1) / servers};
      };
      Content own = load(reader, part(kDenseRows), part(16)).value();
      all.dense.merge(own.dense);
      all.sparse.merge(own.sparse);
      EXPECT_EQ(own.dense.size() + own.sparse.size(), 0U) << "rows of two servers";
    }
    EXPECT_EQ(all.dense, third_.dense) << servers;
    EXPECT_EQ(all.sparse, third_.sparse) << servers;
  }
}

TEST_F(IncrementTest, HoldsOnlyWhatHasChanged) {
  const Manifest manifest = read_manifest(disk_, "ckpts/ckpt-30").value();
  EXPECT_EQ(manifest.since, 20U);
  std::vector<std::string> chunks;
  for (const Part& part : manifest.parts) {
    for (const DataFile& file : part.files) {
      for (const ChunkEntry& chunk : file.chunks) {
        if (is_of_table(chunk.kind))
          chunks.push_back(std::to_string(chunk.rows) + (chunk.kind == ChunkKind::kRemovedRows ? "-" : ""));
      }
    }
  }
  // Row 3; key(2); key(1) and 12345 are no more, in either server's part.
  std::ranges::sort(chunks);
  EXPECT_THAT(chunks, ElementsAre("1", "1", "1-", "1-"));
}

TEST_F(IncrementTest, ListSaysWhatItBuildsUpon) {
  const Folder::Listing listing = folder_.list().value();
  ASSERT_THAT(listing.complete, SizeIs(3));
  EXPECT_EQ(listing.complete[0].since, 20U);
  EXPECT_EQ(listing.complete[1].since, 10U);
  EXPECT_EQ(listing.complete[2].since, std::nullopt);
}

TEST_F(IncrementTest, WhatItBuildsUponStays) {
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre(30, 20, 10));
  EXPECT_EQ(at(30), third_);
  // One with all rows needs none of them.
  EXPECT_EQ(write_checkpoint(disk_, folder_, 40, first_), absl::OkStatus());
  EXPECT_EQ(folder_.keep(2), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre(40, 30, 20, 10));
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre(40));
}

TEST_F(IncrementTest, DamageBelowIsFoundAndAnOlderOneTaken) {
  EXPECT_THAT(verify(disk_, "ckpts/ckpt-30"), IsEmpty());
  disk_.bytes_of("ckpts/ckpt-20/server-0").back() ^= 1;
  EXPECT_THAT(verify(disk_, "ckpts/ckpt-30"), SizeIs(1));
  EXPECT_THAT(verify_alone(disk_, "ckpts/ckpt-30", [](std::uint64_t /*bytes*/) {}), IsEmpty());
  const auto newest = folder_.newest_valid();
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->reader.manifest().clock, 10U);
  ASSERT_THAT(newest->passed_over, SizeIs(2));
  EXPECT_THAT(newest->passed_over[0].reason, HasSubstr("ckpts/ckpt-20/server-0"));
}

/// What cannot be removed keeps what it needs.
TEST_F(IncrementTest, ItsBaseIsNotRemovedBeforeIt) {
  disk_.intercept([](SimulatedDisk::Operation operation, const std::string& path) {
    const bool fails = operation == SimulatedDisk::Operation::kRename && path == "ckpts/ckpt-20";
    return fails ? absl::ErrnoToStatus(EIO, path) : absl::OkStatus();
  });
  ASSERT_EQ(write_checkpoint(disk_, folder_, 40, third_), absl::OkStatus());
  EXPECT_FALSE(folder_.keep(1).ok());
  disk_.intercept(nullptr);
  EXPECT_THAT(complete(), ElementsAre(40, 20, 10));
  EXPECT_EQ(at(20), second_);
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre(40));
}

TEST_F(IncrementTest, IsNotWrittenWithoutWhatItBuildsUpon) {
  ASSERT_EQ(disk_.rename("ckpts/ckpt-20", "ckpts/elsewhere"), absl::OkStatus());
  const absl::Status status = write_increment(disk_, folder_, 30, 20, second_, third_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("holds only what has changed since ckpt-20"));
  ASSERT_EQ(disk_.rename("ckpts/elsewhere", "ckpts/ckpt-20"), absl::OkStatus());
  EXPECT_EQ(at(30), third_) << "the one that was there is there still";
}

/// Readers open increments first, and what they build upon may be gone when it is its turn.
TEST_F(IncrementTest, CountsAsDamagedIfItsBaseGoesMeanwhile) {
  Folder::Listing listing = folder_.list().value();
  listing.complete.pop_back();
  EXPECT_EQ(listing.base_of(listing.complete[1]), nullptr);
  listing.drop_what_lost_its_base("ckpts");
  EXPECT_THAT(listing.complete, IsEmpty());
  ASSERT_THAT(listing.damaged, SizeIs(2));
  EXPECT_EQ(listing.damaged[0].name, "ckpt-30");
  EXPECT_THAT(listing.damaged[1].reason, HasSubstr("ckpt-20 holds only what has changed since ckpt-10"));
}

TEST_F(IncrementTest, IsNothingWithoutWhatItBuildsUpon) {
  ASSERT_EQ(disk_.rename("ckpts/ckpt-20", "ckpts/elsewhere"), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre(10));
  const absl::Status opened = Reader::open(disk_, "ckpts/ckpt-30").status();
  EXPECT_THAT(std::string(opened.message()),
              HasSubstr("ckpts/ckpt-30 holds only what has changed since ckpt-20, which cannot be read"));
  EXPECT_THAT(verify_alone(disk_, "ckpts/ckpt-30", [](std::uint64_t /*bytes*/) {}), SizeIs(1));
  // While it is replaced, it has another name.
  ASSERT_EQ(disk_.rename("ckpts/elsewhere", "ckpts/ckpt-20.old"), absl::OkStatus());
  EXPECT_EQ(at(30), third_);
}

/// A run that has gone back to clock 10 comes to clock 20 again, and has other rows there.
TEST_F(IncrementTest, AnotherRunsCheckpointIsNotTakenForItsOwn) {
  Manifest other = read_manifest(disk_, "ckpts/ckpt-20").value();
  other.run = kSampleRun + 1;
  disk_.bytes_of("ckpts/ckpt-20/manifest.json") = encode(other).value();
  const absl::Status opened = Reader::open(disk_, "ckpts/ckpt-30").status();
  EXPECT_EQ(opened.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(opened.message()), HasSubstr("ckpts/ckpt-20: it was written by another run"));
}

TEST_F(IncrementTest, OtherTablesAreNotTakenForTheSame) {
  Manifest other = read_manifest(disk_, "ckpts/ckpt-10").value();
  other.tables[1].name = "others";
  disk_.bytes_of("ckpts/ckpt-10/manifest.json") = encode(other).value();
  EXPECT_THAT(std::string(Reader::open(disk_, "ckpts/ckpt-20").status().message()),
              HasSubstr("ckpts/ckpt-10: its table 3 is another one"));
}

TEST_F(IncrementTest, ManifestsThatCannotBeAreRefused) {
  Manifest manifest = read_manifest(disk_, "ckpts/ckpt-20").value();
  manifest.since = 20;  // itself
  EXPECT_EQ(check(manifest).code(), absl::StatusCode::kInvalidArgument);
  manifest.since = std::nullopt;  // but rows are gone
  EXPECT_EQ(check(manifest).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(IncrementTest, KeysThatWereRemovedAreKeys) {
  // Whoever can compute checksums says that these keys have 4 bytes.
  PartWriter forged = PartWriter::create(disk_, "ckpts", 30, {.name = "forged"}).value();
  const std::array<std::byte, 4> four{};
  const Column column{.bytes = four, .row_bytes = 4};
  ASSERT_EQ(forged.add_scattered_rows(kSparseTable, {0, 8}, std::span(&column, 1)), absl::OkStatus());
  Part part = forged.finish().value();
  ChunkEntry entry = part.files[0].chunks[0];
  std::string& bytes = disk_.bytes_of("ckpts/forged");
  ChunkHeader header;
  std::memcpy(&header, bytes.data() + entry.offset, sizeof header);
  header.kind = ChunkKind::kRemovedRows;
  Checksum checksum;
  checksum.add(bytes_before_checksum(header));
  checksum.add(four);
  header.checksum = checksum.value();
  std::memcpy(bytes.data() + entry.offset, &header, sizeof header);
  entry.kind = header.kind;
  entry.checksum = header.checksum;
  ChunkReader reader;
  EXPECT_EQ(reader.read(*disk_.open("ckpts/forged").value(), entry).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace verbena::checkpoint
