#include "checkpoint/manifest.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checksum.hpp"
#include "checkpoint/manifest_json.hpp"
#include "checkpoint/part_description.hpp"
#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"

namespace verbena::checkpoint {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Manifest a_manifest() {
  SimulatedDisk disk;
  disk.put_folder("x");
  Manifest manifest = manifest_of(20, write_parts(disk, "x", 20, content_of(1)).value());
  manifest.written = "2026-11-25T09:30:00Z";
  return manifest;
}

/// The JSON with a right checksum, as encode() would write it.
std::string with_sum(const json& object) {
  std::string text = object.dump();
  text.pop_back();
  return fmt::format("{},\"checksum\":\"{}\"}}\n", text,
                     checksum_text(checksum_of(std::as_bytes(std::span(text)))));
}

json json_of(const Manifest& manifest) {
  json object = json::parse(encode(manifest).value());
  object.erase("checksum");
  return object;
}

TEST(ManifestTest, ComesBack) {
  const Manifest manifest = a_manifest();
  const std::string text = encode(manifest).value();
  EXPECT_EQ(text, with_sum(json_of(manifest))) << "the form that the header describes";
  const auto again = decode_manifest(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(encode(*again).value(), text);
  EXPECT_EQ(again->clock, 20U);
  EXPECT_EQ(again->written, "2026-11-25T09:30:00Z");
  EXPECT_EQ(again->program, "1.2.3");
  EXPECT_EQ(again->options, json({{"rate", 0.5}}));
  ASSERT_EQ(again->tables.size(), 2U);
  EXPECT_EQ(again->tables[1].number, kSparseTable);
  EXPECT_EQ(again->tables[1].name, "features");
  EXPECT_EQ(again->tables[1].description, json({{"keys", "sparse"}}));
  ASSERT_EQ(again->parts.size(), 3U);
  EXPECT_EQ(again->parts[1].files.size(), 2U);
  EXPECT_EQ(again->parts[1].files[1].name, "server-1.1");
  EXPECT_EQ(again->parts[2].blobs.size(), 2U);
}

TEST(ManifestTest, EachFlippedBitAndEachMissingEndIsFound) {
  const std::string text = encode(a_manifest()).value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ 1 << bit);
      ASSERT_EQ(decode_manifest(damaged).status().code(), absl::StatusCode::kDataLoss) << i << ", " << bit;
    }
    ASSERT_EQ(decode_manifest(text.substr(0, i)).status().code(), absl::StatusCode::kDataLoss) << i;
  }
  EXPECT_FALSE(decode_manifest(text + "\n").ok());
  EXPECT_FALSE(decode_manifest(text + text).ok());
}

TEST(ManifestTest, AnUnknownFormatIsNamed) {
  json object = json_of(a_manifest());
  object["format"] = 2;
  object.erase("parts");
  const absl::Status status = decode_manifest(with_sum(object)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("it is of format 2, which this program does not know"));
}

TEST(ManifestTest, FieldsThatAreNotKnownAreIgnored) {
  json object = json_of(a_manifest());
  object["more"] = {1, 2};
  EXPECT_TRUE(decode_manifest(with_sum(object)).ok());
}

/// Someone who can compute checksums may have written it.
TEST(ManifestTest, WhatCannotBeIsRefusedByName) {
  static constexpr std::uint64_t kMost = UINT64_MAX;
  const std::vector<std::pair<std::string, std::function<void(json&)>>> cases = {
      {"parts: expected a list", [](json& m) { m["parts"] = 7; }},
      {"the text: expected a field \"clock\"", [](json& m) { m.erase("clock"); }},
      {"clock: expected a whole number from 0 to 18446744073709551615", [](json& m) { m["clock"] = -1; }},
      {"clock: expected a whole number", [](json& m) { m["clock"] = 1.5; }},
      {"program: expected a text", [](json& m) { m["program"] = nullptr; }},
      {"the options are no JSON object", [](json& m) { m["options"] = {1}; }},
      {"tables[1].number: expected a whole number from 0 to 4294967295",
       [](json& m) { m["tables"][1]["number"] = std::uint64_t{1} << 32U; }},
      {"table 0 is listed twice", [](json& m) { m["tables"][1]["number"] = 0; }},
      {"rows of table 3, which is not listed", [](json& m) { m["tables"].erase(1); }},
      {"table 0 has no name that can be shown", [](json& m) { m["tables"][0]["name"] = "a\nb"; }},
      {"\"../x\" is no name of a part", [](json& m) { m["parts"][0]["name"] = "../x"; }},
      {"part server-1 is there twice", [](json& m) { m["parts"][0] = m["parts"][1]; }},
      {"server-0 has no files", [](json& m) { m["parts"][0]["files"] = json::array(); }},
      {"expected the file server-0, found ../server-0",
       [](json& m) { m["parts"][0]["files"][0]["name"] = "../server-0"; }},
      {"parts[0].files[0].checksum: expected 16 hexadecimal digits",
       [](json& m) { m["parts"][0]["files"][0]["checksum"] = "0123456789ABCDEF"; }},
      {"chunks[0].kind: expected rows, scattered, removed or blob",
       [](json& m) { m["parts"][0]["files"][0]["chunks"][0]["kind"] = "row"; }},
      {"server-0: expected a chunk at offset 32, found it at 18446744073709551615",
       [](json& m) { m["parts"][0]["files"][0]["chunks"][0]["offset"] = kMost; }},
      {"server-0: a chunk of 18446744073709551615 bytes at offset 32",
       [](json& m) { m["parts"][0]["files"][0]["chunks"][0]["bytes"] = kMost; }},
      {"server-0: a chunk of 96 bytes",
       [](json& m) { m["parts"][0]["files"][0]["chunks"][0]["bytes"] = 96; }},
      {"server-0: expected a chunk at offset",
       [](json& m) { m["parts"][0]["files"][0]["chunks"][0]["bytes"] = 97; }},
      {"has 18446744073709551615 rows with the numbers 0 to 9",
       [](json& m) { m["parts"][0]["files"][0]["chunks"][0]["rows"] = kMost; }},
      {"rows with the numbers 0 to 18446744073709551615",
       [](json& m) { m["parts"][0]["files"][0]["chunks"][0]["last"] = kMost; }},
      {"has 0 rows", [](json& m) { m["parts"][0]["files"][0]["chunks"][1]["rows"] = 0; }},
      {"row 5 of table 0 is twice there, in server-0 and server-1",
       [](json& m) {
         m["parts"][1]["files"][0]["chunks"][0]["first"] = 5;
         m["parts"][1]["files"][0]["chunks"][0]["last"] = 14;
       }},
      {"worker-0: expected 100 bytes of worker-0, found 60",
       [](json& m) {
         json& file = m["parts"][2]["files"][0];
         file["bytes"] = file["bytes"].get<int>() - file["chunks"][1]["bytes"].get<int>();
         file["chunks"].erase(1);
       }},
      {"worker-0: expected blob 0 from byte 0 on, found it from byte 1 on",
       [](json& m) { m["parts"][2]["files"][0]["chunks"][0]["first"] = 1; }},
      {"worker-0: a piece of blob 2 of 2",
       [](json& m) { m["parts"][2]["files"][0]["chunks"][0]["number"] = 2; }},
      {"blob worker-0 is there twice",
       [](json& m) {
         m["parts"][0]["blobs"] = {{{"name", "worker-0"}, {"bytes", 0}}};
       }},
  };
  const json object = json_of(a_manifest());
  for (const auto& [message, change] : cases) {
    json changed = object;
    change(changed);
    const absl::Status status = decode_manifest(with_sum(changed)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  for (const std::string text : {"[]", "{", "{\"format\":1e999", ""}) {
    std::string whole = fmt::format("{},\"checksum\":\"{}\"}}\n", text,
                                    checksum_text(checksum_of(std::as_bytes(std::span(text)))));
    EXPECT_EQ(decode_manifest(whole).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ManifestTest, DeepTextDoesNotUseUpTheStack) {
  json object = json_of(a_manifest());
  std::string text = object.dump();
  text.replace(text.find("{\"rate\":0.5}"), 12, std::string(1'000'000, '['));
  text = fmt::format("{},\"checksum\":\"{}\"}}\n", text,
                     checksum_text(checksum_of(std::as_bytes(std::span(text)))));
  EXPECT_THAT(std::string(decode_manifest(text).status().message()),
              HasSubstr("nested deeper than 64 levels"));
}

TEST(ManifestTest, TextThatIsNotUtf8IsRefusedBeforeItIsWritten) {
  Manifest manifest = a_manifest();
  manifest.options["title"] = "\xff";
  EXPECT_EQ(encode(manifest).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PartTest, TravelsAsText) {
  for (const Part& part : a_manifest().parts) {
    const std::string text = encode(part);
    EXPECT_TRUE(text.starts_with(kPartTextBegin)) << "Folder knows them by it";
    const auto again = decode_part(text);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(encode(*again), text);
    for (std::size_t length = 0; length < text.size(); ++length)
      EXPECT_EQ(decode_part(text.substr(0, length)).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(NamesTest, OfPartsAndFiles) {
  for (const char* const good : {"server-0", "worker_3", "A"}) EXPECT_TRUE(is_part_name(good)) << good;
  for (const std::string bad : {"", ".", "..", "a.b", "a/b", "a b", "ä", "manifest.json"})
    EXPECT_FALSE(is_part_name(bad)) << bad;
  EXPECT_TRUE(is_part_name(std::string(100, 'x')));
  EXPECT_FALSE(is_part_name(std::string(101, 'x')));
  EXPECT_EQ(data_file_name("server-0", 0), "server-0");
  EXPECT_EQ(data_file_name("server-0", 12), "server-0.12");
  for (const char* const good : {"server-0", "server-0.1", "server-0.12"})
    EXPECT_TRUE(is_data_file_name(good)) << good;
  for (const char* const bad :
       {"server-0.", "server-0.0", "server-0.01", "server-0.x", "a.1.2", "manifest.json"})
    EXPECT_FALSE(is_data_file_name(bad)) << bad;
  EXPECT_EQ(part_description_name("server-0"), "server-0.part");
  EXPECT_TRUE(is_part_description_name("server-0.part"));
  for (const char* const bad : {"server-0", ".part", "server-0.part.part", "server-0.1.part", "part"})
    EXPECT_FALSE(is_part_description_name(bad)) << bad;
  EXPECT_FALSE(is_data_file_name("server-0.part"));
}

}  // namespace
}  // namespace verbena::checkpoint
