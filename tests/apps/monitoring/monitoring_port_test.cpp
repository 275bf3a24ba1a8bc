#include "apps/monitoring/monitoring_port.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <string>

#include "tests/apps/monitoring/sample_run.hpp"
#include "tests/http_client.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

class MonitoringPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = MonitoringPort::open({.port = 0});
    ASSERT_TRUE(opened.ok()) << opened.status();
    port_ = *std::move(opened);
  }
  /// The answer to a GET, from a port that nobody else asks.
  std::string get(const std::string& path) {
    const std::string& url = port_->url();
    const auto number = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
    const base::FileDescriptor socket = testing::connect_to(number);
    const std::string request = "GET " + path + " HTTP/1.1\r\n\r\n";
    EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    pollfd answered{socket.get(), POLLIN, 0};
    for (int turn = 0; turn < 1000 && ::poll(&answered, 1, 1) == 0; ++turn) {
      port_->serve(settings_, record_, [&] {
        ++times_made_;
        return sample_status(record_);
      });
    }
    return testing::read_all(socket.get());
  }

  const RunSettings settings_ = sample_settings();
  const RunRecord record_ = sample_record();
  std::unique_ptr<MonitoringPort> port_;
  int times_made_ = 0;
};

TEST_F(MonitoringPortTest, HasAPageMetricsAndTheStatus) {
  EXPECT_THAT(get("/"), HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(get("/metrics"), HasSubstr("\nverbena_workers 2\n"));
  EXPECT_THAT(get("/status.json"), HasSubstr("\"title\":\"mf, ssp:1\""));
  EXPECT_THAT(get("/elsewhere"), HasSubstr("HTTP/1.1 404 "));
}

/// However often somebody asks, an answer is made once in 50 ms only; and then it is made again.
TEST_F(MonitoringPortTest, HowOftenAnAnswerIsMadeHasABound) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) EXPECT_THAT(get("/metrics"), HasSubstr("\nverbena_workers 2\n"));
  const auto passed = std::chrono::steady_clock::now() - start;
  EXPECT_GE(times_made_, 1);
  EXPECT_LE(times_made_, passed / std::chrono::milliseconds(50) + 1);
  const int before = times_made_;
  pollfd nothing{};
  ::poll(&nothing, 0, 60);
  static_cast<void>(get("/metrics"));
  EXPECT_EQ(times_made_, before + 1);
}

}  // namespace
}  // namespace verbena::apps
