#include "checkpoint/part_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checksum.hpp"
#include "checkpoint/reader.hpp"
#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"

namespace verbena::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PartWriterTest : public ::testing::Test {
 protected:
  PartWriterTest() { disk_.put_folder("c"); }

  PartWriter writer(PartOptions options = {}) {
    if (options.name.empty()) options.name = "server-0";
    return PartWriter::create(disk_, "c", 7, std::move(options)).value();
  }
  /// `rows` rows of one column of `row_bytes` bytes, which all are `byte`.
  static absl::Status add(PartWriter& writer, std::uint32_t table, std::uint64_t first, std::uint64_t rows,
                          std::uint32_t row_bytes, char byte = 'x') {
    const std::string bytes(rows * row_bytes, byte);
    const Column column{.bytes = std::as_bytes(std::span(bytes)), .row_bytes = row_bytes};
    return writer.add_rows(table, first, std::span(&column, 1));
  }
  /// "rows 0 to 9 of table 1", …
  static std::vector<std::string> chunks(const Part& part) {
    std::vector<std::string> chunks;
    for (const DataFile& file : part.files) {
      for (const ChunkEntry& chunk : file.chunks)
        chunks.push_back(description_of(chunk.kind, chunk.number, chunk.first, chunk.last));
    }
    return chunks;
  }

  SimulatedDisk disk_;
};

TEST_F(PartWriterTest, WritesTheFormThatIsDocumented) {
  PartWriter part = writer();
  const std::string values = "abcABC123";
  const std::array<Column, 2> columns = {
      {{.bytes = std::as_bytes(std::span(values)), .row_bytes = 3},
       {.bytes = std::as_bytes(std::span(std::string_view("\1\0\2\0\3\0", 6))), .row_bytes = 2}}};
  ASSERT_EQ(part.add_rows(5, 0x0102, columns), absl::OkStatus());
  const Part written = part.finish().value();
  const std::string bytes = disk_.bytes_of("c/server-0");
  ASSERT_EQ(bytes.size(), 32U + 96U + 15U);
  EXPECT_EQ(bytes.substr(0, 24), std::string("VRBNCKPT\1\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 24));
  const std::string header = bytes.substr(32, 96);
  EXPECT_EQ(header.substr(0, 16), std::string("CHNK\1\0\0\0\5\0\0\0\2\0\0\0", 16));
  EXPECT_EQ(header.substr(16, 24), std::string("\2\1\0\0\0\0\0\0\4\1\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 24));
  EXPECT_EQ(header.substr(40, 32), std::string("\3\0\0\0\2\0\0\0", 8) + std::string(24, '\0'));
  EXPECT_EQ(header.substr(72, 16), std::string("\17\0\0\0\0\0\0\0\17\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(128), "abcABC123" + std::string("\1\0\2\0\3\0", 6));

  const auto number = [](const std::string& eight) {
    std::uint64_t value = 0;
    std::memcpy(&value, eight.data(), sizeof value);
    return value;
  };
  const auto sum = [](const std::string& text) { return checksum_of(std::as_bytes(std::span(text))); };
  EXPECT_EQ(number(bytes.substr(24, 8)), sum(bytes.substr(0, 24)));
  EXPECT_EQ(number(header.substr(88)), sum(header.substr(0, 88) + bytes.substr(128)));
  ASSERT_THAT(written.files, SizeIs(1));
  EXPECT_EQ(written.files[0].checksum, sum(bytes));
  EXPECT_EQ(written.files[0].bytes, bytes.size());
  EXPECT_EQ(written.files[0].chunks[0].checksum, number(header.substr(88)));
}

TEST_F(PartWriterTest, CutsRowsIntoChunks) {
  PartWriter part = writer({.chunk_bytes = 64});
  ASSERT_EQ(add(part, 1, 0, 3, 10), absl::OkStatus());
  ASSERT_EQ(add(part, 1, 3, 10, 10), absl::OkStatus());
  ASSERT_EQ(add(part, 1, 13, 0, 10), absl::OkStatus());
  EXPECT_THAT(chunks(part.finish().value()),
              ElementsAre("rows 0 to 5 of table 1", "rows 6 to 11 of table 1", "rows 12 to 12 of table 1"));
}

TEST_F(PartWriterTest, AChunkIsOfOneTableAndOneKindOfRows) {
  PartWriter part = writer();
  ASSERT_EQ(add(part, 1, 0, 3, 10), absl::OkStatus());
  ASSERT_EQ(add(part, 1, 4, 1, 10), absl::OkStatus()) << "row 3 is missing";
  ASSERT_EQ(add(part, 1, 5, 1, 11), absl::OkStatus());
  ASSERT_EQ(add(part, 2, 6, 1, 11), absl::OkStatus());
  ASSERT_EQ(part.add_blob("b", std::as_bytes(std::span("12345", 5))), absl::OkStatus());
  ASSERT_EQ(part.add_blob("b", std::as_bytes(std::span("678", 3))), absl::OkStatus());
  ASSERT_EQ(part.add_blob("c", std::as_bytes(std::span("9", 1))), absl::OkStatus());
  ASSERT_EQ(add(part, 2, 7, 1, 11), absl::OkStatus());
  EXPECT_THAT(chunks(part.finish().value()),
              ElementsAre("rows 0 to 2 of table 1", "rows 4 to 4 of table 1", "rows 5 to 5 of table 1",
                          "rows 6 to 6 of table 2", "bytes 0 to 7 of blob 0", "bytes 0 to 0 of blob 1",
                          "rows 7 to 7 of table 2"));
}

TEST_F(PartWriterTest, ScatteredRowsComeTogether) {
  PartWriter part = writer();
  const Column column{.bytes = std::as_bytes(std::span("abcd", 4)), .row_bytes = 2};
  ASSERT_EQ(part.add_scattered_rows(1, {5, 7}, std::span(&column, 1)), absl::OkStatus());
  ASSERT_EQ(part.add_scattered_rows(1, {2, 3}, std::span(&column, 1)), absl::OkStatus());
  const Part written = part.finish().value();
  EXPECT_THAT(chunks(written), ElementsAre("rows with numbers from 2 to 6 of table 1"));
  EXPECT_EQ(written.files[0].chunks[0].rows, 4U);
}

TEST_F(PartWriterTest, ALongRowIsAChunkOfItsOwn) {
  PartWriter part = writer({.chunk_bytes = 8});
  ASSERT_EQ(add(part, 1, 0, 2, 100), absl::OkStatus());
  EXPECT_THAT(chunks(part.finish().value()), ElementsAre("rows 0 to 0 of table 1", "rows 1 to 1 of table 1"));
}

TEST_F(PartWriterTest, FilesAreNoLongerThanWanted) {
  PartWriter part = writer({.most_file_bytes = 32 + 2 * (96 + 50), .chunk_bytes = 50});
  ASSERT_EQ(add(part, 1, 0, 25, 10), absl::OkStatus());
  ASSERT_EQ(add(part, 1, 25, 1, 500), absl::OkStatus());
  const Part written = part.finish().value();
  std::vector<std::pair<std::string, std::uint64_t>> files;
  for (const DataFile& file : written.files) files.emplace_back(file.name, file.bytes);
  EXPECT_THAT(files, ElementsAre(std::pair("server-0", 324U), std::pair("server-0.1", 324U),
                                 std::pair("server-0.2", 178U), std::pair("server-0.3", 628U)));
  for (const auto& [name, bytes] : files) EXPECT_EQ(disk_.bytes_of("c/" + name).size(), bytes);
}

TEST_F(PartWriterTest, CompressesWhatGetsShorter) {
  PartWriter part = writer({.chunk_bytes = 1000, .zstd_level = 1});
  ASSERT_EQ(add(part, 1, 0, 100, 10), absl::OkStatus());
  std::mt19937 random(1);
  std::string noise(1000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  ASSERT_EQ(part.add_blob("noise", std::as_bytes(std::span(noise))), absl::OkStatus());
  const Part written = part.finish().value();
  ASSERT_THAT(written.files[0].chunks, SizeIs(2));
  EXPECT_LT(written.files[0].chunks[0].bytes, 96U + 100U);
  EXPECT_EQ(written.files[0].chunks[1].bytes, 96U + 1000U);
}

TEST_F(PartWriterTest, APartOfNothingIsAPart) {
  const Part written = writer().finish().value();
  EXPECT_EQ(check(written), absl::OkStatus());
  EXPECT_THAT(chunks(written), IsEmpty());
  EXPECT_EQ(disk_.bytes_of("c/server-0").size(), sizeof(FileHeader));
}

TEST_F(PartWriterTest, RefusesWhatMakesNoSense) {
  PartWriter part = writer();
  const auto refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(part.add_rows(1, 0, {})));
  const std::array<Column, 9> nine = {};
  EXPECT_TRUE(refused(part.add_rows(1, 0, nine)));
  const std::array<Column, 2> uneven = {{{.bytes = std::as_bytes(std::span("abcd", 4)), .row_bytes = 2},
                                         {.bytes = std::as_bytes(std::span("abc", 3)), .row_bytes = 1}}};
  EXPECT_TRUE(refused(part.add_rows(1, 0, uneven)));
  const Column half{.bytes = std::as_bytes(std::span("abc", 3)), .row_bytes = 2};
  EXPECT_TRUE(refused(part.add_rows(1, 0, std::span(&half, 1))));
  const Column none{.bytes = {}, .row_bytes = 0};
  EXPECT_TRUE(refused(part.add_rows(1, 0, std::span(&none, 1))));
  const Column vast{.bytes = {}, .row_bytes = UINT32_MAX};
  EXPECT_TRUE(refused(part.add_rows(1, 0, std::span(&vast, 1))));
  EXPECT_TRUE(refused(add(part, 1, UINT64_MAX - 2, 3, 1)));
  EXPECT_TRUE(refused(part.add_scattered_rows(1, {3, 3}, std::span(&uneven[0], 1))));
  EXPECT_TRUE(refused(part.add_blob("", {})));
  EXPECT_TRUE(refused(part.add_blob("a\n", {})));
  EXPECT_EQ(add(part, 1, UINT64_MAX - 3, 3, 1), absl::OkStatus()) << "all is as it was";
  EXPECT_THAT(chunks(part.finish().value()),
              ElementsAre("rows 18446744073709551612 to 18446744073709551614 of table 1"));

  for (const PartOptions& options :
       {PartOptions{.name = "a/b"}, PartOptions{.name = "x", .chunk_bytes = 0},
        PartOptions{.name = "x", .chunk_bytes = kMostCompressedBytes + 1},
        PartOptions{.name = "x", .zstd_level = 20}, PartOptions{.name = "x", .zstd_level = -1}})
    EXPECT_TRUE(refused(PartWriter::create(disk_, "c", 7, options).status()));
}

TEST_F(PartWriterTest, ANameIsOnePartsOnly) {
  const PartWriter first = writer();
  EXPECT_EQ(PartWriter::create(disk_, "c", 7, {.name = "server-0"}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_F(PartWriterTest, AnErrorSaysWhatWasToBeWrittenAndStays) {
  PartWriter part = writer({.chunk_bytes = 100});
  int operations = 0;
  disk_.intercept([&](SimulatedDisk::Operation /*operation*/, const std::string& path) {
    ++operations;
    return absl::ErrnoToStatus(ENOSPC, path + ": cannot write");
  });
  ASSERT_EQ(add(part, 1, 0, 9, 10), absl::OkStatus()) << "nothing is written yet";
  const absl::Status failed = add(part, 1, 9, 5, 10);
  EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      std::string(failed.message()),
      "c/server-0: cannot write: No space left on device (it was rows 0 to 9 of table 1, at offset 32)");
  EXPECT_EQ(add(part, 1, 14, 500, 10), failed);
  EXPECT_EQ(part.add_blob("b", {}), failed);
  EXPECT_EQ(part.finish().status(), failed);
  EXPECT_EQ(operations, 1);
}

TEST_F(PartWriterTest, ASyncThatFailedIsNotTriedAgain) {
  PartWriter part = writer();
  bool fails = true;
  disk_.intercept([&](SimulatedDisk::Operation operation, const std::string& path) {
    return operation == SimulatedDisk::Operation::kSync && std::exchange(fails, false)
               ? absl::ErrnoToStatus(EIO, path + ": cannot sync")
               : absl::OkStatus();
  });
  ASSERT_EQ(part.add_blob("state", std::as_bytes(std::span("12345", 5))), absl::OkStatus());
  const absl::Status failed = part.finish().status();
  EXPECT_THAT(std::string(failed.message()), AllOf(HasSubstr("c/server-0"), HasSubstr("Input/output error")));
  EXPECT_EQ(part.finish().status(), failed);
}

}  // namespace
}  // namespace verbena::checkpoint
