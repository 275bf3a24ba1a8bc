#include "apps/word2vec/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/apps/application_fixture.hpp"

namespace verbena::apps::word2vec {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kTableWords = 6;
constexpr std::size_t kDimension = 16;

/// Rows in an array. Records the calls of clock(), barrier() and read().
class WatchedRows final : public RowStore {
 public:
  WatchedRows() : rows_(sources()) {}
  [[nodiscard]] std::size_t lookahead() const override { return 1; }
  void request(std::span<const NeededRows> needed) override { rows_.request(needed); }
  absl::StatusOr<std::span<const RowPointers>> open() override { return rows_.open(); }
  absl::Status close(std::uint64_t items) override { return rows_.close(items); }
  absl::Status clock() override {
    calls.emplace_back("clock");
    return absl::OkStatus();
  }
  absl::Status barrier() override {
    calls.emplace_back("barrier");
    return absl::OkStatus();
  }
  absl::Status read(std::size_t table, std::size_t numbers, float* to) override {
    calls.emplace_back("read");
    return rows_.read(table, numbers, to);
  }
  [[nodiscard]] std::vector<float> inputs() {
    std::vector<float> values(kTableWords * kDimension);
    EXPECT_TRUE(rows_.read(kInputTable, kDimension, values.data()).ok());
    return values;
  }

  std::vector<std::string> calls;

 private:
  static std::array<RowSource, 2> sources() {
    const auto make = [](std::size_t id, std::span<float> row) {
      for (std::size_t k = 0; k < row.size(); ++k) row[k] = static_cast<float>(random_number(1, id, k));
    };
    const RowSource source{.rows = kTableWords, .width = kDimension, .make = make};
    return {source, source};
  }
  LocalRows rows_;
};

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    for (std::uint32_t n = 0; n < 200; ++n) data_.text.words.push_back(n * n % 7 % kTableWords);
    data_.text.begin.push_back(data_.text.words.size());
    data_.chances.resize(kTableWords);
    data_.dimension = kDimension;
  }
  /// What worker `rank` learns.
  std::vector<float> trained(std::uint32_t rank, const TrainingOptions& options) {
    data_.rank = rank;
    WatchedRows rows;
    Recorder recorder;
    const WindowMaker windows(subsampling_, noise_, {});
    Trainer trainer(options, data_, windows, rows, 1);
    EXPECT_TRUE(trainer.run(recorder, recorder.stop).ok());
    calls_ = rows.calls;
    return rows.inputs();
  }

  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(kTableWords, 10);
  Subsampling subsampling_{counts_, 0};
  NoiseDistribution noise_{counts_};
  TrainingData data_;
  std::vector<std::string> calls_;
};

TrainingOptions one_pass() {
  TrainingOptions options;
  options.iterations = 1;
  options.batch = 50;
  options.clocks_per_iteration = 1;
  return options;
}

TEST_F(TrainerTest, WorkersDrawOtherWords) {
  const std::vector<float> first = trained(0, one_pass());
  EXPECT_EQ(trained(0, one_pass()), first);
  EXPECT_NE(trained(1, one_pass()), first);
  TrainingOptions other = one_pass();
  other.seed = 2;
  EXPECT_NE(trained(0, other), first);
}

TEST_F(TrainerTest, NobodyTrainsWhileRowsAreReadForAnEvaluation) {
  trained(0, one_pass());
  EXPECT_THAT(calls_, ElementsAre("clock", "barrier", "read", "read", "barrier"));
}

}  // namespace
}  // namespace verbena::apps::word2vec
