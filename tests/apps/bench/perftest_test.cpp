#include "apps/bench/perftest.hpp"

#include <gtest/gtest.h>

namespace verbena::apps::bench {
namespace {

constexpr const char* kLatency = R"(Device not recognized to implement inline feature. Disabling it
---------------------------------------------------------------------------------------
                    RDMA_Read Latency Test
 Mtu             : 4096[B]
 local address: LID 0000 QPN 0x0012 PSN 0x21d22b OUT 0x80 RKey 0x0003a8 VAddr 0x00558a0b1ea000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:01
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       1000          27.19          6384.65      55.12    	       74.94       	215.41 		394.91  		6384.65
---------------------------------------------------------------------------------------
)";
constexpr const char* kBandwidth = R"(
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      300              0.80              0.40  		   0.000646
)";

std::string with(std::string output, const std::string& old_text, const std::string& new_text) {
  return output.replace(output.find(old_text), old_text.size(), new_text);
}

TEST(PerftestOutputTest, TypicalLatencyAndAverageBandwidth) {
  EXPECT_EQ(parse_perftest("ib_read_lat", kLatency), 55'120);
  EXPECT_EQ(parse_perftest("ib_write_bw", kBandwidth), 0.4e9 / 8);
}

TEST(PerftestOutputTest, NoFigureWhereTheClockCouldNotBeCalibrated) {
  for (const char* wrong : {"inf", "nan", "-nan", "-3", "0.00", "oops"}) {
    EXPECT_EQ(parse_perftest("ib_read_lat", with(kLatency, "55.12", wrong)), std::nullopt) << wrong;
    EXPECT_EQ(parse_perftest("ib_read_bw", with(kBandwidth, "0.40", wrong)), std::nullopt) << wrong;
  }
}

TEST(PerftestOutputTest, NoFigureInWhatIsNoTable) {
  for (const char* garbage : {"", "\n\n", "8 1000 27", "Couldn't connect to 10.0.0.1:18515", "1 2 3 4 x"}) {
    EXPECT_EQ(parse_perftest("ib_read_lat", garbage), std::nullopt) << garbage;
    EXPECT_EQ(parse_perftest("ib_read_bw", garbage), std::nullopt) << garbage;
  }
}

TEST(PerftestRunTest, ComesBackAsItWas) {
  const PerftestRun run{
      .tool = "ib_write_bw", .bytes = 65536, .iterations = 99, .depth = 16, .connections = 3};
  const auto back = decode_perftest(encode_perftest(run));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(encode_perftest(*back), encode_perftest(run));
}

TEST(PerftestRunTest, RefusesWhatIsNoRun) {
  for (const char* text : {"", "ib_write_bw", "sh 8 1 1 1", "/bin/ib_write_bw 8 1 1 1",
                           "ib_write_bw -1 x 1 1", "ib_write_bw 8 9999999999 1 1"}) {
    EXPECT_FALSE(decode_perftest(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace verbena::apps::bench
