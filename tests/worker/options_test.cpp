#include "worker/options.hpp"

#include <gtest/gtest.h>

namespace verbena::worker {
namespace {

/// A description with something unusual in each attribute comes back as it was sent: one that is forgotten in
/// either direction differs.
TEST(TableOnTheWireTest, ComesBackAsItWasSent) {
  const protocol::OpenTable dense{.table = 3,
                                  .value_type = ValueType::kDouble,
                                  .rows = 17,
                                  .width = 5,
                                  .name = "rows",
                                  .allocation = Allocation::kDynamic,
                                  .consistency = "asp",
                                  .rule = "max"};
  const protocol::OpenTable sparse{.table = 4,
                                   .value_type = ValueType::kInt64,
                                   .key_space = KeySpace::kSparse,
                                   .rows = 18,
                                   .width = 6,
                                   .name = "keys",
                                   .consistency = "essp:2",
                                   .rule = "add",
                                   .initial = "constant(value=2)",
                                   .seed = 9,
                                   .admission = "count(least=3)",
                                   .eviction = "age(clocks=7)"};
  for (const protocol::OpenTable& open : {dense, sparse}) {
    const auto options = from_wire(open);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(to_wire(open.table, *options, open.value_type), open);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(from_wire({.consistency = "nonsense"}).status()));
}

}  // namespace
}  // namespace verbena::worker
