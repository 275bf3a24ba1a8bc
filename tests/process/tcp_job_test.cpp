// Jobs over TCP, on this host.
#include <gtest/gtest.h>

#include "tests/process/small_training.hpp"

namespace verbena::process_test {
namespace {

class TcpJobTest : public SmallTrainingTest {
 protected:
  [[nodiscard]] std::vector<std::string> train(const std::string& transport) const {
    const Ended ended = start({"--transport", transport}, transport)->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    return model(transport);
  }
};

TEST_P(TcpJobTest, UnderBspItTrainsWhatAJobOverSharedMemoryTrains) {
  const std::vector<std::string> over_tcp = train("tcp");
  EXPECT_EQ(over_tcp, train("shm"));
  for (const std::string& file : over_tcp) EXPECT_NE(file, "");
}

INSTANTIATE_TEST_SUITE_P(Each, TcpJobTest, ::testing::ValuesIn(small_trainings()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace verbena::process_test
