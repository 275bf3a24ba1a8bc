#include "consistency/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace verbena::consistency {
namespace {

TEST(ModelTest, ReadsWhatItWrites) {
  for (const ConsistencyModel& model : std::initializer_list<ConsistencyModel>{
           Bsp{}, ABsp{}, ABsp{Updates::kMeans}, Ssp{0}, Ssp{7}, Essp{2}, Essp{1'000'000}, BoundedDelay{3},
           Asp{}, Sequential{}, Vap{0.1}, Vap{1e-300}, Vap{1.0 / 3}}) {
    const absl::StatusOr<ConsistencyModel> read = parse_consistency(to_string(model));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, model) << to_string(model);
  }
}

TEST(ModelTest, StalenessIsOneUnlessGiven) {
  EXPECT_EQ(*parse_consistency("ssp"), ConsistencyModel(Ssp{1}));
  EXPECT_EQ(*parse_consistency("essp"), ConsistencyModel(Essp{1}));
  EXPECT_EQ(*parse_consistency("bounded-delay"), ConsistencyModel(BoundedDelay{1}));
}

TEST(ModelTest, RefusesWhatIsNoModel) {
  for (const char* text : {"",
                           "BSP",
                           "bsp:1",
                           "ssp:",
                           "ssp:-1",
                           "ssp:1.5",
                           "ssp:2 ",
                           "ssp:1000001",
                           "asp:1",
                           "essp:99999999999",
                           ":2",
                           "ssp:2:3",
                           "vap",
                           "vap:",
                           "vap:0",
                           "vap:-1",
                           "vap:inf",
                           "vap:nan",
                           "vap:1e999",
                           "sequential:2",
                           "bounded-delay:-1",
                           "bounded delay",
                           "a-bsp:",
                           "a-bsp:1",
                           "a-bsp:mean"}) {
    const absl::StatusOr<ConsistencyModel> model = parse_consistency(text);
    ASSERT_FALSE(model.ok()) << text;
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(model.status().message()), testing::HasSubstr("expected bsp, ssp:S, essp:S"));
  }
}

TEST(ModelTest, ImpossibleNumbersAreFound) {
  for (const ConsistencyModel& model : std::initializer_list<ConsistencyModel>{
           Ssp{kMaxStaleness + 1}, BoundedDelay{UINT32_MAX}, Vap{0}, Vap{-1}, Vap{INFINITY}, Vap{NAN}}) {
    EXPECT_EQ(check(model).code(), absl::StatusCode::kInvalidArgument) << to_string(model);
  }
  EXPECT_TRUE(check(Essp{kMaxStaleness}).ok());
}

}  // namespace
}  // namespace verbena::consistency
