#include "apps/inspect/table_views.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/temporary_folder.hpp"
#include <verbena/table.hpp>

namespace verbena::apps::inspect {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using verbena::testing::contents;

/// A job of one worker with two tables, one of which nobody but workers can look into.
class TableViewsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(start().ok()); }
  absl::Status start() {
    auto session = Session::connect(servers_.session_options(0));
    RETURN_IF_ERROR(session.status());
    session_ = *std::move(session);
    auto weights = session_->table<float>(
        {.name = "weights", .key_space = KeySpace::kSparse, .width = 2, .consistency = Bsp{}});
    RETURN_IF_ERROR(weights.status());
    RETURN_IF_ERROR(session_
                        ->table<float>({.name = "moving",
                                        .rows = 9,
                                        .width = 1,
                                        .consistency = Asp{},
                                        .allocation = Allocation::kDynamic})
                        .status());
    RETURN_IF_ERROR(weights->push(std::vector<Key>{7, 8, 9}, std::vector<float>{0.1F, 1, 0, -3, 2, 2}));
    RETURN_IF_ERROR(session_->barrier());
    auto observer = Observer::connect({.servers = servers_.session_options(0).servers});
    RETURN_IF_ERROR(observer.status());
    observer_ = *std::move(observer);
    auto found = find_tables(*observer_, {"weights"});
    RETURN_IF_ERROR(found.status());
    weights_ = found->front();
    return absl::OkStatus();
  }

  verbena::testing::ServerThreads servers_{{.servers = 2, .workers = 1}};
  std::unique_ptr<Session> session_;
  std::unique_ptr<Observer> observer_;
  ObservedTable weights_;
};

TEST_F(TableViewsTest, StatsAreForPeopleAndPrograms) {
  const auto stats = look_at_job(*observer_, {});
  ASSERT_TRUE(stats.ok()) << stats.status();
  const std::string text = to_text(*stats);
  EXPECT_THAT(text, AllOf(HasSubstr("2 servers, 1 worker; all have finished 1 clocks"), HasSubstr("weights"),
                          HasSubstr("dynamic")));
  const nlohmann::json json = to_json(*stats);
  EXPECT_EQ(json["clock"], 1);
  ASSERT_EQ(json["tables"].size(), 2);
  EXPECT_EQ(json["tables"][0]["memory"]["rows"], 3);
  EXPECT_EQ(json["tables"][0]["consistency"], "bsp");
  EXPECT_TRUE(json["tables"][1]["memory"].is_null());
  EXPECT_EQ(json["tables"][1]["rows"], 9);
}

TEST_F(TableViewsTest, TablesAreFoundByName) {
  const absl::Status other = find_tables(*observer_, {"weights", "other"}).status();
  EXPECT_TRUE(absl::IsNotFound(other));
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("\"other\""), HasSubstr("\"weights\", \"moving\"")));
}

TEST_F(TableViewsTest, RowsComeAsTheyAreAskedFor) {
  const auto largest = largest_rows(*observer_, weights_, 2);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(to_text(weights_, *largest), "8 0 -3\n9 2 2\n");
  const auto rows = rows_of(*observer_, weights_, std::vector<Key>{9, 1, 7, 9});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(to_text(weights_, *rows), "9 2 2\n1 no row\n7 0.1 1\n9 2 2\n");
  const nlohmann::json json = to_json(*rows);
  EXPECT_EQ(json[0]["values"], nlohmann::json({2, 2}));
  EXPECT_TRUE(json[1]["values"].is_null());
  EXPECT_EQ(json[1]["key"], 1);
}

TEST_F(TableViewsTest, ExportWritesAllRows) {
  const verbena::testing::TemporaryFolder folder;
  const auto rows =
      export_rows(*observer_, weights_, folder.path("rows.txt"), KeyText::kNumber, [](std::uint64_t) {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(*rows, 3);
  std::vector<std::string> lines;
  std::istringstream text(contents(folder.path("rows.txt")));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  EXPECT_THAT(lines, UnorderedElementsAre("7 0.1 1", "8 0 -3", "9 2 2"));
}

TEST_F(TableViewsTest, KeysAreSlotsAndIndicesIfThatIsAskedFor) {
  const Key feature = 3 * (Key{1} << 52U) + 17;
  const std::vector<SeenRow> rows = {{.key = feature, .values = {{1, 2}}}, {.key = 5}};
  EXPECT_EQ(to_text(weights_, rows, KeyText::kSlotAndIndex), "3:17 1 2\n0:5 no row\n");
  const nlohmann::json json = to_json(rows, KeyText::kSlotAndIndex);
  EXPECT_EQ(json[0]["key"], feature);
  EXPECT_EQ(json[0]["slot_and_index"], "3:17");
  EXPECT_FALSE(to_json(rows)[0].contains("slot_and_index"));
  const verbena::testing::TemporaryFolder folder;
  const auto written = export_rows(*observer_, weights_, folder.path("rows.txt"), KeyText::kSlotAndIndex,
                                   [](std::uint64_t) {});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(contents(folder.path("rows.txt")), HasSubstr("0:7 0.1 1\n"));
}

}  // namespace
}  // namespace verbena::apps::inspect
