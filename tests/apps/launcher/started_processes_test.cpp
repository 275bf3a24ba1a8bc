#include "apps/launcher/started_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;

TEST(StartedProcessesTest, AnotherOneIsToldTheSameButForItsRank) {
  const auto words = [](const std::vector<std::string>& own) { return words_to_join(own, 9); };
  EXPECT_THAT(words({"verbena", "run", "lda", "--servers", "8", "--process", "2", "--processes", "10"}),
              ElementsAre("verbena", "run", "lda", "--servers", "8", "--processes", "10", "--join",
                          "--process", "9"));
  EXPECT_THAT(words({"verbena", "--process=8", "--join", "--join-servers", "3", "--join-servers=4",
                     "--join-workers", "2", "-q"}),
              ElementsAre("verbena", "-q", "--join", "--process", "9"));
}

}  // namespace
}  // namespace verbena::apps
