// Packed updates in whole jobs: they do what records do, in fewer bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

constexpr std::uint64_t kEncodedRows = 200;

/// Some of these come again and again, others once.
std::vector<std::uint64_t> rows_of(std::uint32_t worker, int clock) {
  const bool comes_again = clock % 3 != 0;
  std::mt19937_64 random(static_cast<std::uint64_t>(comes_again ? clock % 4 : 100 + clock) * 2 + worker);
  std::vector<std::uint64_t> rows(1 + random() % 60);
  for (std::uint64_t& row : rows) row = random() % kEncodedRows;
  return rows;
}

class EncodingTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EncodingTest, EachUpdateIsThereOnce) {
  for (const KeySpace key_space : {KeySpace::kDense, KeySpace::kSparse}) {
    for (const std::string encoding : {"packed", "packed(lists=150)"}) {
      for (const Maps maps : {Maps::kAll, Maps::kNone}) {
        ClusterOptions cluster = over(maps, 2, 2);
        cluster.lanes = 2;
        const TestRows rows(key_space, kEncodedRows);
        const ClusterResult result = run_cluster(cluster, [&](Session& session) -> absl::Status {
          TableOptions options = rows.options("rows");
          options.width = 2;
          options.consistency = parse_consistency(GetParam()).value();
          options.encoding = encoding;
          auto table = session.table<std::int64_t>(options);
          RETURN_IF_ERROR(table.status());
          std::vector<std::int64_t> expected(kEncodedRows * 2);
          for (int clock = 0; clock < 15; ++clock) {
            std::vector<std::int64_t> own(kEncodedRows);
            for (std::uint32_t worker = 0; worker < 2; ++worker) {
              for (const std::uint64_t row : rows_of(worker, clock))
                expected[row * 2 + worker] += 1 + clock * 70;
            }
            const std::vector<std::uint64_t> now = rows_of(session.rank(), clock);
            std::vector<std::int64_t> updates(now.size() * 2);
            for (std::size_t i = 0; i < now.size(); ++i) updates[i * 2 + session.rank()] = 1 + clock * 70;
            const std::vector<Key> keys = rows.keys(now);
            std::vector<std::int64_t> values(updates.size());
            RETURN_IF_ERROR(table->pull(keys, values));
            RETURN_IF_ERROR(table->push(keys, updates));
            RETURN_IF_ERROR(table->pull(keys, values));
            for (std::size_t i = 0; i < now.size(); ++i) {
              const std::size_t at = session.rank();
              if (values[i * 2 + at] != expected[now[i] * 2 + at])
                return wrong("own updates are missing, or there twice");
            }
            RETURN_IF_ERROR(session.clock());
          }
          RETURN_IF_ERROR(session.barrier());
          std::vector<std::int64_t> values(expected.size());
          RETURN_IF_ERROR(table->pull(rows.all(), values));
          return values == expected ? absl::OkStatus() : wrong("something is lost, or there twice");
        });
        EXPECT_TRUE(result.first_error().ok())
            << encoding << ", " << to_string(maps) << ": " << result.first_error();
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, EncodingTest,
                         ::testing::Values("bsp", "a-bsp", "ssp:1", "essp:1", "asp", "bounded-delay:1",
                                           "sequential", "vap:500"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& letter : name) letter = letter == ':' || letter == '-' ? '_' : letter;
                           return name;
                         });

/// What one worker sends for mini-batches of 500 keys, in each of three passes, in bytes a row.
std::vector<double> bytes_of_passes(KeySpace key_space, const std::string& encoding,
                                    const std::string& filter, Maps maps) {
  constexpr std::size_t kBatches = 8;
  constexpr std::size_t kKeys = 500;
  std::vector<double> bytes;
  const TestRows rows(key_space, kBatches * kKeys);
  const ClusterResult result = run_cluster(over(maps, 1, 1), [&](Session& session) -> absl::Status {
    TableOptions options = rows.options("rows");
    options.width = 1;
    options.consistency = Ssp{1};
    options.encoding = encoding;
    options.filter = filter;
    auto table = session.table<float>(options);
    RETURN_IF_ERROR(table.status());
    std::vector<float> values(kKeys);
    for (int pass = 0; pass < 3; ++pass) {
      const std::uint64_t before = session.statistics().update_bytes;
      for (std::size_t batch = 0; batch < kBatches; ++batch) {
        const auto keys = rows.all().subspan(batch * kKeys, kKeys);
        RETURN_IF_ERROR(table->pull(keys, values));
        for (std::size_t i = 0; i < kKeys; ++i) values[i] = 0.1F * static_cast<float>(i + 1);
        RETURN_IF_ERROR(table->push(keys, values));
        RETURN_IF_ERROR(session.clock());
      }
      bytes.push_back(static_cast<double>(session.statistics().update_bytes - before) / (kBatches * kKeys));
      RETURN_IF_ERROR(session.barrier());  // the next pass finds the rows
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  return bytes;
}

TEST(EncodedBytesTest, AreFew) {
  using ::testing::AllOf;
  using ::testing::Each;
  using ::testing::Gt;
  using ::testing::Lt;
  for (const Maps maps : {Maps::kAll, Maps::kNone}) {
    EXPECT_THAT(bytes_of_passes(KeySpace::kSparse, "records", "none", maps), Each(AllOf(Gt(16), Lt(16.3))));
    EXPECT_THAT(bytes_of_passes(KeySpace::kDense, "packed", "none", maps), Each(AllOf(Gt(5), Lt(5.2))));
    const auto packed = bytes_of_passes(KeySpace::kSparse, "packed", "none", maps);
    EXPECT_THAT(packed[0], AllOf(Gt(12), Lt(12.3))) << "there are no rows yet";
    EXPECT_THAT(packed[1], AllOf(Gt(5), Lt(6.3)));
    const auto listed = bytes_of_passes(KeySpace::kSparse, "packed(lists=10000)", "none", maps);
    EXPECT_THAT(listed[0], AllOf(Gt(12), Lt(12.3)));
    EXPECT_THAT(listed[1], AllOf(Gt(4), Lt(4.2)));
    const auto rounded = bytes_of_passes(KeySpace::kSparse, "packed", "int8", maps);
    EXPECT_THAT(rounded[2], AllOf(Gt(2), Lt(3.3)));
    // The rows of a batch follow one another: as distances they are zeros.
    EXPECT_LT(bytes_of_passes(KeySpace::kDense, "packed(zstd=1)", "none", maps)[2], 4.5);
    EXPECT_LT(bytes_of_passes(KeySpace::kDense, "packed(zstd=1)", "int8", maps)[2], 1.5);
    EXPECT_THAT(bytes_of_passes(KeySpace::kSparse, "auto", "none", maps)[1],
                maps == Maps::kAll ? AllOf(Gt(16), Lt(16.3)) : AllOf(Gt(5), Lt(6.3)));
  }
}

/// The same bits, however updates travel, and wherever they are rounded.
TEST(EncodedBitsTest, AreTheSameUnderBsp) {
  std::map<std::string, std::string> bits;
  for (const std::string filter : {"none", "significant(least=0.02)", "int8", "top(share=0.5)+bf16"}) {
    for (const std::string encoding :
         {"records", "packed", "packed(lists=10000)", "packed(zstd=1)", "packed(lists=10000,zstd=19)"}) {
      for (const Maps maps : {Maps::kAll, Maps::kNone}) {
        const TestRows rows(KeySpace::kSparse, kEncodedRows);
        const ClusterResult result = run_cluster(over(maps, 2, 2), [&](Session& session) -> absl::Status {
          TableOptions options = rows.options("rows");
          options.width = 3;
          options.consistency = Bsp{};
          options.rule = "adagrad(rate=0.1)";
          options.encoding = encoding;
          options.filter = filter;
          options.admission = "count(least=2)";
          auto table = session.table<float>(options);
          RETURN_IF_ERROR(table.status());
          for (int clock = 0; clock < 12; ++clock) {
            const std::vector<Key> keys = rows.keys(rows_of(session.rank(), clock));
            std::vector<float> values(keys.size() * 3);
            RETURN_IF_ERROR(table->pull(keys, values));
            for (std::size_t i = 0; i < values.size(); ++i)
              values[i] = values[i] * 0.3F + 0.01F * static_cast<float>(i % 7);
            RETURN_IF_ERROR(table->push(keys, values));
            RETURN_IF_ERROR(session.clock());
          }
          RETURN_IF_ERROR(session.barrier());
          RETURN_IF_ERROR(session.barrier());
          std::vector<float> values(kEncodedRows * 3);
          RETURN_IF_ERROR(table->pull(rows.all(), values));
          if (session.rank() > 0) return absl::OkStatus();
          std::string found(values.size() * sizeof(float), '\0');
          std::memcpy(found.data(), values.data(), found.size());
          const auto [first, is_first] = bits.emplace(filter, found);
          return first->second == found ? absl::OkStatus() : wrong("other bits than before");
        });
        EXPECT_TRUE(result.first_error().ok())
            << filter << ", " << encoding << ", " << to_string(maps) << ": " << result.first_error();
      }
    }
  }
  EXPECT_EQ(bits.size(), 4U);
  EXPECT_NE(bits["none"], bits["int8"]);
}

struct Posted {
  std::uint64_t requests = 0;
  std::uint64_t doorbells = 0;
};

/// What two pulls of so many rows, one after the other, ask the transport for.
std::vector<Posted> posted_by_two_pulls(std::uint64_t count) {
  const TestRows rows(KeySpace::kSparse, count);
  ClusterOptions reading = over(Maps::kNone, 1, 1);
  reading.gathers = false;
  std::vector<Posted> posted;
  const ClusterResult result = run_cluster(reading, [&](Session& session) -> absl::Status {
    TableOptions options = rows.options("rows");
    options.width = 2;
    options.consistency = Bsp{};
    auto table = session.table<float>(options);
    RETURN_IF_ERROR(table.status());
    std::vector<float> values(2 * count, 1);
    RETURN_IF_ERROR(table->push(rows.all(), values));
    RETURN_IF_ERROR(session.clock());
    for (int pull = 0; pull < 2; ++pull) {
      const SessionStatistics before = session.statistics();
      RETURN_IF_ERROR(table->pull(rows.all(), values));
      EXPECT_THAT(values, ::testing::Each(1));
      const SessionStatistics after = session.statistics();
      posted.push_back(
          {after.requests_posted - before.requests_posted, after.doorbells_rung - before.doorbells_rung});
      RETURN_IF_ERROR(session.clock());  // for which rows are cached
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  posted.resize(2);
  return posted;
}

/// A row takes two neighbouring buckets and itself, and of a hundred rows three another read: of an overflow
/// bucket, or of a row with the same tag. Before the first one the worker reads the directory and its depth.
TEST(KnownRowsTest, AreReadTwiceAtFirst) {
  const Posted first = posted_by_two_pulls(300)[0];
  EXPECT_GE(first.requests, 600U);
  EXPECT_LE(first.requests, 609U + 2);
}

/// A row that was read before is read at once, from where it was.
TEST(KnownRowsTest, AreReadOnceThen) {
  EXPECT_EQ(posted_by_two_pulls(300)[1].requests, 300U);
}

/// All rows of a pull are looked for together.
TEST(KnownRowsTest, AreReadTogether) {
  const std::vector<Posted> posted = posted_by_two_pulls(10);  // so few that one doorbell does for all
  EXPECT_LE(posted[0].doorbells, 4U) << "the depth, the directory, the buckets, the rows";
  EXPECT_EQ(posted[1].doorbells, 1U);
}

TEST(EncodingChoiceTest, WhatDoesNotGoTogetherIsRefused) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        const auto error_of = [&](TableOptions options, auto value) {
          options.name = "rows";
          options.rows = 3;
          options.width = 2;
          return message_of(session.table<decltype(value)>(options).status());
        };
        EXPECT_THAT(error_of({.encoding = "zip"}, 0.0F), ::testing::HasSubstr("expected auto, records"));
        EXPECT_THAT(error_of({.encoding = "packed(zstd=20)"}, 0.0F),
                    ::testing::HasSubstr("expected 0 to 19, found 20"));
        EXPECT_THAT(
            error_of({.consistency = Asp{}, .allocation = Allocation::kDynamic, .encoding = "packed"}, 0.0F),
            ::testing::HasSubstr("travel as records"));
        EXPECT_THAT(error_of({.filter = "int8"}, std::int64_t{0}),
                    ::testing::HasSubstr("no such values of int64_t"));
        auto table = session.table<float>({.name = "rows", .rows = 3, .width = 2, .encoding = "packed"});
        RETURN_IF_ERROR(table.status());
        EXPECT_THAT(error_of({.encoding = "records"}, 0.0F),
                    ::testing::HasSubstr("encoding packed, then records"));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
