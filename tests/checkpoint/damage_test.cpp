// Checkpoints that somebody or something has changed: each damage is found, and nothing wrong is read.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/compression.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/manifest_json.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/verify.hpp"
#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"

namespace verbena::checkpoint {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kPath = "ckpts/ckpt-20";
/// Which bytes of a file are damaged: every one, or one in so many.
#ifdef VERBENA_SANITIZED
constexpr std::size_t kByteStep = 7;
#else
constexpr std::size_t kByteStep = 1;
#endif

SimulatedDisk disk_with_checkpoint(int zstd_level = 0) {
  SimulatedDisk disk;
  Folder folder(disk, "ckpts");
  EXPECT_EQ(write_checkpoint(disk, folder, 20, content_of(3), {.zstd_level = zstd_level}), absl::OkStatus());
  return disk;
}

/// Whether all that is read is right, or there is an error.
bool reads_nothing_wrong(SimulatedDisk& disk) {
  const auto reader = Reader::open(disk, kPath);
  if (!reader.ok()) return true;
  const auto content = load(*reader);
  return !content.ok() || *content == content_of(3);
}

class FlippedBitTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Compression, FlippedBitTest, ::testing::Values(0, 1));

TEST_P(FlippedBitTest, IsFoundInEachByteOfEachFile) {
  SimulatedDisk disk = disk_with_checkpoint(GetParam());
  ASSERT_THAT(verify(disk, kPath), IsEmpty());
  std::size_t bytes = 0;
  for (const std::string& path : disk.paths()) {
    std::string& content = disk.bytes_of(path);
    for (std::size_t i = 0; i < content.size(); i += kByteStep) {
      const auto mask = static_cast<char>(1 << (i % 8));
      content[i] = static_cast<char>(content[i] ^ mask);
      const std::vector<Damage> damages = verify(disk, kPath);
      ASSERT_THAT(damages, Not(IsEmpty())) << path << ", byte " << i;
      ASSERT_THAT(damages, Each(Field(&Damage::path, path))) << "byte " << i;
      ASSERT_TRUE(reads_nothing_wrong(disk)) << path << ", byte " << i;
      content[i] = static_cast<char>(content[i] ^ mask);
      ++bytes;
    }
  }
  EXPECT_GT(bytes, 3000U / kByteStep);
  EXPECT_THAT(verify(disk, kPath), IsEmpty());
}

TEST(TruncationTest, IsFoundAtEachLength) {
  SimulatedDisk disk = disk_with_checkpoint();
  for (const std::string& path : disk.paths()) {
    const std::string whole = disk.bytes_of(path);
    for (std::size_t length = 0; length < whole.size(); length += kByteStep) {
      disk.bytes_of(path) = whole.substr(0, length);
      ASSERT_THAT(verify(disk, kPath), Not(IsEmpty())) << path << ", " << length;
      ASSERT_FALSE(Reader::open(disk, kPath).ok()) << path << ", " << length;
    }
    for (const std::string& more : {std::string(1, '\0'), whole}) {
      disk.bytes_of(path) = whole + more;
      ASSERT_THAT(verify(disk, kPath), Not(IsEmpty())) << path;
      ASSERT_FALSE(Reader::open(disk, kPath).ok()) << path;
    }
    disk.bytes_of(path) = whole;
  }
}

TEST(VerifyTest, NamesEachDamageAndWhatToDo) {
  SimulatedDisk disk = disk_with_checkpoint();
  const Manifest manifest = read_manifest(disk, kPath).value();
  const DataFile& file = manifest.parts[0].files[0];
  ASSERT_GE(file.chunks.size(), 2U);
  std::string& bytes = disk.bytes_of(fmt::format("{}/{}", kPath, file.name));
  for (const ChunkEntry& chunk : file.chunks) bytes[chunk.offset + 100] ^= 1;
  bytes[9] ^= 1;  // the version
  ASSERT_EQ(disk.remove_file("ckpts/ckpt-20/server-1"), absl::OkStatus());
  disk.bytes_of("ckpts/ckpt-20/worker-0").pop_back();

  const std::vector<Damage> damages = verify(disk, kPath);
  ASSERT_THAT(damages, SizeIs(file.chunks.size() + 4));
  EXPECT_EQ(to_string(damages[0]),
            "ckpts/ckpt-20/server-0: offset 0: it is of version 257, which this program does not know: it "
            "reads version 1 (read it with a later version of the program)");
  EXPECT_EQ(damages[1].offset, file.chunks[0].offset);
  EXPECT_THAT(damages[1].what, HasSubstr(checksum_text(file.chunks[0].checksum)));
  EXPECT_EQ(damages[1].advice, "take an older checkpoint, or put back a copy of the file");
  EXPECT_EQ(damages[2].offset, file.chunks[1].offset);
  const Damage& missing = damages[file.chunks.size() + 1];
  EXPECT_EQ(missing.path, "ckpts/ckpt-20/server-1");
  EXPECT_EQ(missing.advice, "put the file back if it was moved; otherwise take an older checkpoint");
  const Damage& shorter = damages[file.chunks.size() + 2];
  EXPECT_EQ(shorter.path, "ckpts/ckpt-20/worker-0");
  EXPECT_THAT(shorter.what, HasSubstr("bytes, found"));
  EXPECT_THAT(damages.back().what, HasSubstr("expected a chunk of"));
}

TEST(VerifyTest, SaysHowFarItIs) {
  SimulatedDisk disk = disk_with_checkpoint();
  std::uint64_t all = 0;
  std::vector<std::uint64_t> expected;
  const Manifest manifest = read_manifest(disk, kPath).value();
  for (const Part& part : manifest.parts) {
    for (const DataFile& file : part.files) {
      for (const ChunkEntry& chunk : file.chunks) expected.push_back(all + chunk.offset + chunk.bytes);
      all += file.bytes;
    }
  }
  std::vector<std::uint64_t> told;
  EXPECT_THAT(verify(disk, kPath, [&](std::uint64_t bytes) { told.push_back(bytes); }), IsEmpty());
  EXPECT_EQ(told, expected);
  EXPECT_EQ(told.back(), all);
}

TEST(VerifyTest, WithoutAManifestNothingElseIsKnown) {
  SimulatedDisk disk = disk_with_checkpoint();
  disk.bytes_of("ckpts/ckpt-20/manifest.json")[5] ^= 1;
  const std::vector<Damage> damages = verify(disk, kPath);
  ASSERT_THAT(damages, SizeIs(1));
  EXPECT_EQ(damages[0].path, "ckpts/ckpt-20/manifest.json");
  EXPECT_THAT(damages[0].what, HasSubstr("it is damaged"));
}

/// A file of another clock, of another checkpoint of the same run.
TEST(VerifyTest, AFileOfAnotherCheckpointIsFound) {
  SimulatedDisk disk = disk_with_checkpoint();
  Folder folder(disk, "ckpts");
  ASSERT_EQ(write_checkpoint(disk, folder, 30, content_of(3)), absl::OkStatus());
  disk.bytes_of("ckpts/ckpt-20/server-0") = disk.bytes_of("ckpts/ckpt-30/server-0");
  EXPECT_THAT(std::string(Reader::open(disk, kPath).status().message()),
              HasSubstr("ckpts/ckpt-20/server-0: expected a file of clock 20, found one of clock 30"));
}

/// A chunk that is sound, but another one.
TEST(VerifyTest, AChunkInAnothersPlaceIsFound) {
  SimulatedDisk disk = disk_with_checkpoint();
  SimulatedDisk other;
  Folder folder(other, "ckpts");
  ASSERT_EQ(write_checkpoint(other, folder, 20, content_of(4)), absl::OkStatus());
  disk.bytes_of("ckpts/ckpt-20/server-0") = other.bytes_of("ckpts/ckpt-20/server-0");
  EXPECT_THAT(verify(disk, kPath), Not(IsEmpty()));
  ASSERT_TRUE(Reader::open(disk, kPath).ok());
  EXPECT_FALSE(load(*Reader::open(disk, kPath)).ok());
}

// --- somebody who can compute checksums

/// Changes a chunk of server-0, and makes all checksums right again. `change` may make the payload longer or
/// shorter.
void forge(SimulatedDisk& disk, std::size_t index,
           const std::function<void(ChunkHeader& header, std::string& payload)>& change) {
  Manifest manifest = read_manifest(disk, kPath).value();
  DataFile& file = manifest.parts[0].files[0];
  std::string& bytes = disk.bytes_of(fmt::format("{}/{}", kPath, file.name));
  ChunkEntry& entry = file.chunks[index];
  ChunkHeader header;
  std::memcpy(&header, bytes.data() + entry.offset, sizeof header);
  std::string payload = bytes.substr(entry.offset + sizeof header, header.stored_bytes);
  const std::size_t before = sizeof header + payload.size();
  change(header, payload);
  std::string chunk(reinterpret_cast<const char*>(&header), sizeof header);
  chunk += payload;
  const std::string summed = chunk.substr(0, offsetof(ChunkHeader, checksum)) + payload;
  header.checksum = checksum_of(std::as_bytes(std::span(summed)));
  std::memcpy(chunk.data() + offsetof(ChunkHeader, checksum), &header.checksum, sizeof header.checksum);
  bytes.replace(entry.offset, before, chunk);
  entry.checksum = header.checksum;
  entry.bytes = chunk.size();
  for (std::size_t i = index + 1; i < file.chunks.size(); ++i) file.chunks[i].offset += chunk.size() - before;
  file.bytes = bytes.size();
  file.checksum = checksum_of(std::as_bytes(std::span(bytes)));
  disk.bytes_of(fmt::format("{}/{}", kPath, kManifestName)) = encode(manifest).value();
}

TEST(ForgeryTest, HeadersThatCannotBeAreRefused) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::string bomb = [] {
    base::Compressor compressor(1);
    const std::string zeros(std::size_t{5} << 20, '\0');
    const auto frame = compressor.compress(std::as_bytes(std::span(zeros)), zeros.size());
    return std::string(reinterpret_cast<const char*>(frame.data()), frame.size());
  }();
  const std::vector<std::pair<std::string, std::function<void(ChunkHeader&, std::string&)>>> cases = {
      {"another magic", [](ChunkHeader& h, std::string&) { h.magic[0] = 'X'; }},
      {"another kind", [](ChunkHeader& h, std::string&) { h.kind = ChunkKind::kBlob; }},
      {"an unknown kind", [](ChunkHeader& h, std::string&) { h.kind = static_cast<ChunkKind>(9); }},
      {"an unknown compression",
       [](ChunkHeader& h, std::string&) { h.compression = static_cast<ChunkCompression>(2); }},
      {"another table", [](ChunkHeader& h, std::string&) { h.number = 7; }},
      {"no columns", [](ChunkHeader& h, std::string&) { h.columns = 0; }},
      {"too many columns", [](ChunkHeader& h, std::string&) { h.columns = 9; }},
      {"a column of no bytes", [](ChunkHeader& h, std::string&) { h.column_bytes[1] = 0; }},
      {"a column beyond the last", [](ChunkHeader& h, std::string&) { h.column_bytes[2] = 1; }},
      {"wider rows", [](ChunkHeader& h, std::string&) { h.column_bytes[0] = UINT32_MAX; }},
      {"more rows", [=](ChunkHeader& h, std::string&) { h.rows = kMost; }},
      {"other rows", [](ChunkHeader& h, std::string&) { ++h.first, ++h.last; }},
      {"a longer payload", [=](ChunkHeader& h, std::string&) { h.stored_bytes = kMost; }},
      {"a longer payload before", [=](ChunkHeader& h, std::string&) { h.raw_bytes = kMost; }},
      {"both", [=](ChunkHeader& h, std::string&) { h.raw_bytes = h.stored_bytes = kMost; }},
      {"a payload that is longer than it says", [](ChunkHeader&, std::string& p) { p += "x"; }},
      {"a payload that is shorter", [](ChunkHeader&, std::string& p) { p.pop_back(); }},
      {"a payload that is longer than its rows",
       [](ChunkHeader& h, std::string& p) {
         p += "x";
         ++h.stored_bytes;
         ++h.raw_bytes;
       }},
      {"no zstd frame", [](ChunkHeader& h, std::string&) { h.compression = ChunkCompression::kZstd; }},
      {"a zstd frame of other rows",
       [&](ChunkHeader& h, std::string& p) {
         h.compression = ChunkCompression::kZstd;
         p = bomb;
         h.stored_bytes = p.size();
       }},
      {"a zstd frame of too many bytes",
       [&](ChunkHeader& h, std::string& p) {
         h.compression = ChunkCompression::kZstd;
         p = bomb;
         h.stored_bytes = p.size();
         h.raw_bytes = std::size_t{5} << 20;
         h.column_bytes[0] = static_cast<std::uint32_t>(h.raw_bytes / h.rows - h.column_bytes[1]);
       }},
  };
  for (const auto& [what, change] : cases) {
    SCOPED_TRACE(what);
    SimulatedDisk disk = disk_with_checkpoint();
    forge(disk, 0, [](ChunkHeader&, std::string&) {});
    ASSERT_THAT(verify(disk, kPath), IsEmpty()) << "the forger does it well";
    forge(disk, 0, change);
    const std::vector<Damage> damages = verify(disk, kPath);
    ASSERT_THAT(damages, SizeIs(1));
    EXPECT_EQ(damages[0].path, "ckpts/ckpt-20/server-0");
    EXPECT_EQ(damages[0].offset, sizeof(FileHeader));
    const auto reader = Reader::open(disk, kPath);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(load(*reader).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace verbena::checkpoint
