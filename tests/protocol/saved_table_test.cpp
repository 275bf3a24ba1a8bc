#include "protocol/saved_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace verbena::protocol {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Every attribute is another than the usual one.
OpenTable sparse_table() {
  return {.table = 3,
          .value_type = ValueType::kInt64,
          .key_space = KeySpace::kSparse,
          .rows = 100,
          .width = 16,
          .name = "w",
          .allocation = Allocation::kDynamic,
          .consistency = "ssp:2",
          .rule = "adagrad(rate=0.1)",
          .initial = "constant(value=1)",
          .seed = UINT64_MAX,
          .admission = "count(least=10)",
          .eviction = "age(clocks=9)"};
}

TEST(SavedTableTest, DescriptionsAreReadByPeople) {
  EXPECT_EQ(description_of(sparse_table()), nlohmann::json({{"name", "w"},
                                                            {"rows", 100},
                                                            {"width", 16},
                                                            {"value_type", "int64_t"},
                                                            {"allocation", "dynamic"},
                                                            {"consistency", "ssp:2"},
                                                            {"rule", "adagrad(rate=0.1)"},
                                                            {"key_space", "sparse"},
                                                            {"initial", "constant(value=1)"},
                                                            {"seed", UINT64_MAX},
                                                            {"admission", "count(least=10)"},
                                                            {"eviction", "age(clocks=9)"}}));
}

TEST(SavedTableTest, DescriptionsTellTheTable) {
  EXPECT_EQ(table_of(description_of(sparse_table()), 3).value(), sparse_table());
  OpenTable dense{.rows = 7, .width = 1, .name = "d", .consistency = "asp"};
  for (const ValueType type : {ValueType::kFloat, ValueType::kDouble, ValueType::kInt32}) {
    dense.value_type = type;
    // As they are in a manifest.
    const auto parsed = nlohmann::json::parse(description_of(dense).dump());
    EXPECT_EQ(table_of(parsed, 0).value(), dense);
  }
  auto more = description_of(dense);
  more["colour"] = "blue";
  EXPECT_EQ(table_of(more, 0).value(), dense);
}

TEST(SavedTableTest, EachAttributeOfADescriptionIsChecked) {
  const nlohmann::json sound = description_of(sparse_table());
  const auto refusal = [&](const std::string& attribute, const nlohmann::json& value) {
    nlohmann::json description = sound;
    if (value.is_discarded()) {
      description.erase(attribute);
    } else {
      description[attribute] = value;
    }
    const auto table = table_of(description, 3);
    EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << attribute << " " << value;
    return std::string(table.status().message());
  };
  for (const auto& [attribute, value] : sound.items()) {
    EXPECT_EQ(refusal(attribute, nlohmann::json(nlohmann::json::value_t::discarded)),
              "the description of table 3: expected an attribute \"" + attribute + '"');
    for (const auto& other :
         {nlohmann::json(nullptr), nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json::array()})
      EXPECT_THAT(refusal(attribute, other), HasSubstr("expected \"" + attribute + "\" to be "));
    EXPECT_THAT(refusal(attribute, value.is_string() ? nlohmann::json("") : nlohmann::json("7")),
                HasSubstr("expected \"" + attribute + "\" to be "));
  }
  EXPECT_THAT(refusal("width", std::uint64_t{1} << 32U), HasSubstr("a whole number from 0 to 4294967295"));
  EXPECT_THAT(refusal("width", 0U), HasSubstr("a table cannot have width 0"));
  EXPECT_THAT(refusal("rows", kMaxRows + 1), HasSubstr("a table cannot have 1099511627777 rows"));
  EXPECT_THAT(refusal("rule", std::string(kMaxNameBytes + 1, 'x')), HasSubstr("a text of 1 to 256 bytes"));
  EXPECT_THAT(refusal("key_space", "other"), HasSubstr("\"dense\" or \"sparse\""));
  EXPECT_THAT(refusal("value_type", "no type"),
              HasSubstr("\"float\" or \"double\" or \"int32_t\" or \"int64_t\""));
  for (const auto& other : {nlohmann::json(nullptr), nlohmann::json::array(), nlohmann::json("w")})
    EXPECT_THAT(std::string(table_of(other, 3).status().message()), HasSubstr("expected an object"));
}

TEST(SavedTableTest, WhatMayChangeBetweenSavingAndOpening) {
  OpenTable saved = sparse_table();
  OpenTable now = saved;
  now.table = 5;
  now.allocation = Allocation::kStatic;
  now.consistency = "bsp";
  now.rows = 1000;
  now.admission = "always";
  now.eviction = "never";
  EXPECT_EQ(check_resumable(saved, now), absl::OkStatus());
}

TEST(SavedTableTest, WhatMustBeTheSameIsNamed) {
  const OpenTable sparse = sparse_table();
  const OpenTable dense{.rows = 7, .width = 16, .name = "w", .consistency = "asp"};
  const auto refusal = [](const OpenTable& saved, const OpenTable& now) {
    const absl::Status status = check_resumable(saved, now);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  OpenTable now = sparse;
  now.width = 32;
  EXPECT_EQ(refusal(sparse, now), "table \"w\" was saved with width 16, and is opened with width 32");
  now.value_type = ValueType::kDouble;
  EXPECT_EQ(refusal(sparse, now),
            "table \"w\" was saved with width 16, int64_t, and is opened with width 32, double");
  now = sparse;
  now.rule = "add";
  EXPECT_THAT(refusal(sparse, now), HasSubstr("rule adagrad(rate=0.1), and is opened with rule add"));
  now = sparse;
  now.initial = "zero";
  EXPECT_THAT(refusal(sparse, now), HasSubstr("initially constant(value=1), and is opened with initially"));
  now = sparse;
  now.seed = 1;
  EXPECT_THAT(refusal(sparse, now), HasSubstr("and is opened with seed 1"));
  now = dense;
  now.rows = 8;
  EXPECT_EQ(refusal(dense, now), "table \"w\" was saved with 7 rows, and is opened with 8 rows");
  now = dense;
  now.key_space = KeySpace::kSparse;
  now.rows = 8;
  now.seed = 1;
  EXPECT_THAT(refusal(dense, now),
              AllOf(HasSubstr("dense keys, and is opened with sparse keys"), Not(HasSubstr("rows"))));
}

TEST(SavedTableTest, ColumnsOfRows) {
  EXPECT_THAT(saved_columns(false, 64, 0, false).row_bytes(), ElementsAre(64));
  EXPECT_THAT(saved_columns(false, 64, 32, true).row_bytes(), ElementsAre(64, 32));
  EXPECT_THAT(saved_columns(true, 64, 0, false).row_bytes(), ElementsAre(8, 64));
  EXPECT_THAT(saved_columns(true, 64, 32, true).row_bytes(), ElementsAre(8, 64, 32, sizeof(RowUse)));
  EXPECT_EQ(saved_columns(true, 64, 0, true).use_bytes, sizeof(RowUse));
}

}  // namespace
}  // namespace verbena::protocol
