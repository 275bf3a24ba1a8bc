// `verbena bench`: every operation is measured and reported; how fast it was is no test's business.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

TEST(BenchTest, EveryOperationIsReported) {
  const verbena::testing::TemporaryFolder folder;
  const std::string file = folder.path("bench.json");
  const Ended bench =
      run(VERBENA_PROGRAM, {"bench", "--seconds", "0.01", "--sizes", "8", "--json", file}, folder.path());
  ASSERT_EQ(bench.status, 0) << bench.err;
  const nlohmann::json json = nlohmann::json::parse(verbena::testing::contents(file));
  EXPECT_EQ(json.at("schema"), 1);
  std::vector<std::string> operations;
  for (const nlohmann::json& result : json.at("results")) {
    operations.push_back(result.at("operation"));
    EXPECT_THAT(bench.out, HasSubstr(operations.back()));
    EXPECT_GT(result.at("operations"), 0);
    EXPECT_GT(result.at("min_ns"), 0);
    EXPECT_LE(result.at("min_ns"), result.at("p50_ns"));
    EXPECT_LE(result.at("p50_ns"), result.at("p99_ns"));
    EXPECT_LE(result.at("p99_ns"), result.at("max_ns"));
    EXPECT_GT(result.at("yardstick").at("p50_ns"), 0);
  }
  EXPECT_THAT(operations, UnorderedElementsAreArray({"read", "read-batch", "write", "write-notify", "pull",
                                                     "pull-large", "pull-in-place", "pull-batch",
                                                     "push-batch", "push-visible", "clock", "idle-server"}));
}

TEST(BenchTest, ImpossibleOptionsAreRefused) {
  const verbena::testing::TemporaryFolder folder;
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"bench", "--operations", "fly"},
                                             {"bench", "--sizes", "0"},
                                             {"bench", "--sizes", "12"},
                                             {"bench", "--seconds", "-1"},
                                             {"bench", "--json", folder.path("no/such/folder.json")}}) {
    const Ended bench = run(VERBENA_PROGRAM, arguments, folder.path());
    EXPECT_EQ(bench.status, 2) << arguments.back();
    EXPECT_THAT(bench.err, HasSubstr("verbena: error: "));
  }
}

}  // namespace
}  // namespace verbena::process_test
