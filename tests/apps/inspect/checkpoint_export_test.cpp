#include "apps/inspect/checkpoint_export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/apps/inspect/saved_run.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::inspect {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using verbena::testing::contents;

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

/// Version 1.0; the dictionary is padded so that the header has `bytes` bytes.
std::string npy_header(const std::string& dictionary, std::size_t bytes) {
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(bytes - 10);
  header += '\0';
  header += dictionary;
  header.resize(bytes - 1, ' ');
  return header + '\n';
}

/// Its JSON has a multiple of 8 bytes.
std::string safetensors_header(std::string json) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return bytes_of<std::uint64_t>({json.size()}) + json;
}

/// Rows 1 to 4 of "weights", the last of them first, and three keys of "features".
class CheckpointExportTest : public ::testing::Test {
 protected:
  CheckpointExportTest() {
    SavedRun run(folder_, 20);
    run.add_rows<float>(dense_table(), 4, {13, 14, 15});
    run.add_rows<float>(dense_table(), 1, {4, 5, 6, 7, 8, 9, 10, 11, 12});
    run.add_scattered_rows<std::int64_t>(sparse_table(), {0, 8}, {9, 4}, {1, -2, 3, 4});
    run.add_scattered_rows<std::int64_t>(sparse_table(), {8, 16}, {7}, {5, 6});
    path_ = run.commit();
  }
  absl::StatusOr<Exported> export_to(const ExportOptions& options) {
    return export_checkpoint(checkpoint::host_file_system(), path_, options,
                             [this](std::uint64_t bytes, std::uint64_t all_bytes) {
                               EXPECT_GE(bytes, written_);
                               EXPECT_LE(bytes, all_bytes);
                               written_ = bytes;
                             });
  }
  /// The error, and that nothing was written.
  std::string refusal(absl::StatusCode code, const ExportOptions& options) {
    const absl::Status status = export_to(options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_FALSE(std::filesystem::exists(out_));
    return std::string(status.message());
  }

  const verbena::testing::TemporaryFolder scratch_;
  const std::string folder_ = scratch_.path("ckpts");
  const std::string out_ = scratch_.path("out.npy");
  std::string path_;
  std::uint64_t written_ = 0;
};

const std::vector<float> kWeights = {0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

TEST_F(CheckpointExportTest, ADenseTableBecomesAnArray) {
  // Also if there is room for one row or two of them.
  for (const std::uint64_t window_bytes : {std::uint64_t{1} << 30, std::uint64_t{1}, std::uint64_t{25}}) {
    written_ = 0;
    const auto exported = export_to({.table = "weights", .npy = out_, .window_bytes = window_bytes});
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_EQ(contents(out_), npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }", 128) +
                                  bytes_of(kWeights));
    EXPECT_EQ(exported->rows, 5U);
    EXPECT_EQ(exported->bytes, 60U);
    EXPECT_EQ(exported->keys_path, "");
    EXPECT_EQ(written_, 60U);
  }
}

TEST_F(CheckpointExportTest, ASparseTableBecomesTwoArraysInTheOrderOfKeys) {
  for (const std::uint64_t window_bytes : {std::uint64_t{1} << 30, std::uint64_t{1}, std::uint64_t{33}}) {
    written_ = 0;
    const auto exported = export_to({.table = "features", .npy = out_, .window_bytes = window_bytes});
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_EQ(contents(out_), npy_header("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }", 128) +
                                  bytes_of<std::int64_t>({3, 4, 5, 6, 1, -2}));
    EXPECT_EQ(exported->keys_path, scratch_.path("out.keys.npy"));
    EXPECT_EQ(contents(exported->keys_path),
              npy_header("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }", 128) +
                  bytes_of<std::uint64_t>({4, 7, 9}));
    EXPECT_EQ(written_, exported->bytes);
  }
}

TEST_F(CheckpointExportTest, KeysStandBesideTheirValues) {
  EXPECT_EQ(keys_path_of("a/w.npy"), "a/w.keys.npy");
  EXPECT_EQ(keys_path_of("a.b/w"), "a.b/w.keys.npy");
}

TEST_F(CheckpointExportTest, SafetensorsHoldATable) {
  const auto exported = export_to({.table = "weights", .safetensors = out_});
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(contents(out_),
            safetensors_header(R"({"weights":{"data_offsets":[0,60],"dtype":"F32","shape":[5,3]}})") +
                bytes_of(kWeights));
  EXPECT_EQ(exported->tables, 1U);
}

/// Those of longer elements come first, so that each begins on a multiple of them.
TEST_F(CheckpointExportTest, SafetensorsHoldAllTables) {
  const auto exported = export_to({.safetensors = out_});
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(contents(out_),
            safetensors_header(R"({"features.keys":{"data_offsets":[0,24],"dtype":"U64","shape":[3]},)"
                               R"("features.values":{"data_offsets":[24,72],"dtype":"I64","shape":[3,2]},)"
                               R"("weights":{"data_offsets":[72,132],"dtype":"F32","shape":[5,3]}})") +
                bytes_of<std::uint64_t>({4, 7, 9}) + bytes_of<std::int64_t>({3, 4, 5, 6, 1, -2}) +
                bytes_of(kWeights));
  EXPECT_EQ(exported->tables, 2U);
  EXPECT_EQ(exported->rows, 8U);
  EXPECT_EQ(exported->bytes, 132U);
}

TEST_F(CheckpointExportTest, EachTypeHasItsName) {
  const auto types =
      std::to_array<std::tuple<ValueType, std::string, std::string>>({{ValueType::kFloat, "<f4", "F32"},
                                                                      {ValueType::kDouble, "<f8", "F64"},
                                                                      {ValueType::kInt32, "<i4", "I32"},
                                                                      {ValueType::kInt64, "<i8", "I64"}});
  for (const auto& [type, npy, safetensors] : types) {
    protocol::OpenTable table = dense_table();
    table.value_type = type;
    table.width = 1;
    table.rows = 2;
    SavedRun run(folder_, 30);
    std::string expected;
    visit_value_type(type, [&]<class Value>() {
      const std::vector<Value> values = {Value{3}, Value{4}};
      run.add_rows<Value>(table, 0, values);
      expected = bytes_of(values);
    });
    path_ = run.commit();
    written_ = 0;
    ASSERT_TRUE(export_to({.table = "weights", .npy = out_}).ok());
    EXPECT_THAT(contents(out_), AllOf(HasSubstr("'" + npy + "'"), ::testing::EndsWith("\n" + expected)));
    written_ = 0;
    ASSERT_TRUE(export_to({.safetensors = out_}).ok());
    EXPECT_THAT(contents(out_), AllOf(HasSubstr('"' + safetensors + '"'), ::testing::EndsWith(expected)));
  }
}

/// As servers of dynamic tables may save them.
TEST_F(CheckpointExportTest, ScatteredRowsOfADenseTableComeToTheirPlaces) {
  SavedRun run(folder_, 30);
  run.add_scattered_rows<float>(dense_table(), {0, 5}, {3, 1}, {10, 11, 12, 4, 5, 6});
  run.add_scattered_rows<float>(dense_table(), {2, 5}, {4, 2}, {13, 14, 15, 7, 8, 9});
  path_ = run.commit();
  for (const std::uint64_t window_bytes : {std::uint64_t{1} << 30, std::uint64_t{25}}) {
    written_ = 0;
    const auto exported = export_to({.table = "weights", .npy = out_, .window_bytes = window_bytes});
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_THAT(contents(out_), ::testing::EndsWith("\n" + bytes_of(kWeights)));
  }
}

TEST_F(CheckpointExportTest, AnIncrementIsExportedWithAllThatItBuildsUpon) {
  SavedRun run(folder_, 30, 20);
  run.add_rows<float>(dense_table(), 2, {70, 80, 90});
  run.add_scattered_rows<std::int64_t>(sparse_table(), {0, 8}, {9, 5}, {10, 20, 50, 60});
  run.add_removed_rows(sparse_table(), {0, 8}, {4});
  path_ = run.commit();
  for (const std::uint64_t window_bytes : {std::uint64_t{1} << 30, std::uint64_t{1}}) {
    written_ = 0;
    ASSERT_EQ(export_to({.table = "weights", .npy = out_, .window_bytes = window_bytes}).status(),
              absl::OkStatus());
    EXPECT_EQ(contents(out_), npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }", 128) +
                                  bytes_of<float>({0, 0, 0, 4, 5, 6, 70, 80, 90, 10, 11, 12, 13, 14, 15}));
    written_ = 0;
    const auto exported = export_to({.table = "features", .npy = out_, .window_bytes = window_bytes});
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_EQ(contents(out_), npy_header("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }", 128) +
                                  bytes_of<std::int64_t>({50, 60, 5, 6, 10, 20}));
    EXPECT_EQ(contents(exported->keys_path),
              npy_header("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }", 128) +
                  bytes_of<std::uint64_t>({5, 7, 9}));
    EXPECT_EQ(written_, exported->bytes);
  }
}

TEST_F(CheckpointExportTest, TheNewestOfAFolderIsMeant) {
  path_ = folder_;
  EXPECT_TRUE(export_to({.table = "weights", .npy = out_}).ok());
  path_ = scratch_.path("nowhere");
  EXPECT_TRUE(absl::IsNotFound(export_to({.table = "weights", .npy = out_}).status()));
}

TEST_F(CheckpointExportTest, OneOutputIsExpected) {
  using Code = absl::StatusCode;
  EXPECT_THAT(refusal(Code::kInvalidArgument, {.table = "weights"}), HasSubstr("one of them is expected"));
  EXPECT_THAT(refusal(Code::kInvalidArgument, {.table = "weights", .npy = out_, .safetensors = out_}),
              HasSubstr("one of them is expected"));
  EXPECT_THAT(refusal(Code::kInvalidArgument, {.npy = out_}), HasSubstr("--table is expected with --npy"));
  EXPECT_THAT(refusal(Code::kNotFound, {.table = "other", .npy = out_}),
              HasSubstr("there is no table \"other\"; the saved ones are \"weights\", \"features\""));
  EXPECT_THAT(refusal(Code::kNotFound, {.table = "weights", .npy = scratch_.path("nowhere/out.npy")}),
              HasSubstr("nowhere/out.npy"));
}

TEST_F(CheckpointExportTest, DamageLeavesNothing) {
  const std::string data = path_ + "/server-0";
  std::string bytes = contents(data);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  verbena::testing::write_file(data, bytes);
  EXPECT_THAT(refusal(absl::StatusCode::kDataLoss, {.safetensors = out_}), HasSubstr(data + ": offset "));
  EXPECT_THAT(refusal(absl::StatusCode::kDataLoss, {.table = "features", .npy = out_}), HasSubstr(data));
  EXPECT_FALSE(std::filesystem::exists(keys_path_of(out_)));
  EXPECT_TRUE(export_to({.table = "weights", .npy = out_}).ok()) << "it is in other chunks";
}

TEST_F(CheckpointExportTest, RowsThatCannotBeAreRefused) {
  const auto refused = [&](const std::function<void(SavedRun&)>& add) {
    SavedRun run(folder_, 30);
    add(run);
    path_ = run.commit();
    written_ = 0;
    return refusal(absl::StatusCode::kInvalidArgument, {.safetensors = out_});
  };
  EXPECT_THAT(refused([](SavedRun& run) {
                run.add_scattered_rows<std::int64_t>(sparse_table(), {0, 8}, {4, 4}, {1, 2, 3, 4});
              }),
              HasSubstr("table \"features\": key 4 is there twice"));
  EXPECT_THAT(refused([](SavedRun& run) {
                run.add_scattered_rows<float>(dense_table(), {0, 5}, {5}, {1, 2, 3});
              }),
              HasSubstr("table \"weights\": row 5 is there, of 5"));
  EXPECT_THAT(refused([](SavedRun& run) {
                run.add_rows<float>(dense_table(), 0, {1, 2, 3});
                protocol::OpenTable wider = dense_table();
                wider.width = 7;
                run.add_rows<float>(wider, 1, {1, 2, 3, 4, 5, 6, 7});
              }),
              HasSubstr("table \"weights\": its rows have other columns"));
  EXPECT_THAT(refused([](SavedRun& run) {
                run.add_rows<float>(dense_table(), 0, {1, 2, 3});
                protocol::OpenTable other = dense_table();
                other.table = 5;
                run.add_rows<float>(other, 0, {1, 2, 3});
              }),
              HasSubstr("more than one tensor would have the name \"weights\""));
}

}  // namespace
}  // namespace verbena::apps::inspect
