#include "apps/resuming/checkpoints.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/resuming/saved_state.hpp"
#include "base/return_if_error.hpp"
#include "tests/apps/application_fixture.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/temporary_folder.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointsTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kWorkers = 2;

  static absl::Status open_a_table(Session& session) {
    return session.table<float>({.name = "rows", .rows = 10, .width = 3, .consistency = Bsp{}}).status();
  }
  /// What each worker does with its checkpoints, once these are loaded.
  using Work = std::function<absl::Status(Checkpoints& checkpoints, Session& session, Recorder& recorder)>;
  absl::Status run(const CheckpointPlan& plan, const std::string& resume, const Work& work) {
    recorders_ = std::vector<Recorder>(kWorkers);
    verbena::testing::ClusterOptions options{.servers = 1, .workers = kWorkers, .resume = resume};
    return verbena::testing::run_cluster(options,
                                         [&](Session& session) -> absl::Status {
                                           RETURN_IF_ERROR(open_a_table(session));
                                           Recorder& recorder = recorders_[session.rank()];
                                           Checkpoints checkpoints(session, recorder, plan);
                                           RETURN_IF_ERROR(checkpoints.load());
                                           RETURN_IF_ERROR(work(checkpoints, session, recorder));
                                           checkpoints.finish();
                                           return absl::OkStatus();
                                         })
        .first_error();
  }
  /// Does nothing in so many iterations.
  absl::Status iterate(const CheckpointPlan& plan, std::int64_t iterations, const std::string& resume = {}) {
    return run(plan, resume, [&](Checkpoints& checkpoints, Session& session, Recorder& /*recorder*/) {
      for (std::int64_t i = checkpoints.first_iteration(); i <= iterations; ++i) {
        const std::int64_t clock = session.current_clock();
        RETURN_IF_ERROR(checkpoints.after_iteration(i, i == iterations, [&] {
          nlohmann::json state = nlohmann::json::object();
          state["rank"] = std::uint64_t{session.rank()};
          return state;
        }));
        if (i < iterations) {
          EXPECT_EQ(session.current_clock() - clock, checkpoints.clocks_after(i));
        }
      }
      return absl::OkStatus();
    });
  }
  [[nodiscard]] std::vector<std::string> iterations_saved() const {
    std::vector<std::string> all;
    if (!std::filesystem::exists(folder())) return all;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      const absl::StatusOr<CheckpointSummary> checkpoint = read_checkpoint(entry.path().string());
      EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
      if (checkpoint.ok()) all.push_back(checkpoint->notes.at(kIterationNote));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  [[nodiscard]] std::string folder() const { return folder_.path("checkpoints"); }
  [[nodiscard]] std::string newest() const {
    const absl::StatusOr<CheckpointSummary> checkpoint = newest_checkpoint(folder());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return checkpoint.ok() ? checkpoint->path : "";
  }

  verbena::testing::TemporaryFolder folder_;
  std::vector<Recorder> recorders_;
};

TEST_F(CheckpointsTest, NoneWithoutAFolder) {
  EXPECT_TRUE(iterate({}, 5).ok());
  Checkpoints none;
  EXPECT_EQ(none.first_iteration(), 1);
  EXPECT_EQ(none.resumed(), nullptr);
  EXPECT_EQ(none.clocks_after(3), 0);
  EXPECT_TRUE(none.after_iteration(3, false, [] { return nlohmann::json(); }).ok());
  none.finish();
}

TEST_F(CheckpointsTest, AsOftenAndAsManyAsAsked) {
  ASSERT_TRUE(iterate({.folder = folder(), .every = 2, .keep = 2}, 8).ok());
  EXPECT_THAT(iterations_saved(), ElementsAre("4", "6")) << "nothing comes after the last iteration";
  EXPECT_EQ(recorders_[0].summaries["checkpoints"],
            nlohmann::json({{"written", 3}, {"failed", 0}, {"newest", newest()}}));
  EXPECT_THAT(recorders_[1].summaries, IsEmpty());
  ASSERT_TRUE(iterate({.folder = folder(), .every = 2, .after_last = true, .keep = 1}, 8).ok());
  EXPECT_THAT(iterations_saved(), ElementsAre("8"));
}

TEST_F(CheckpointsTest, GoesOnWithWhatEachWorkerHasSaved) {
  ASSERT_TRUE(iterate({.folder = folder(), .every = 3, .notes = {{"of", "this"}}}, 5).ok());
  EXPECT_EQ(read_checkpoint(newest())->notes.at("of"), "this");
  const absl::Status status =
      run({}, newest(), [](Checkpoints& checkpoints, Session& session, Recorder& /*recorder*/) {
        EXPECT_EQ(checkpoints.first_iteration(), 4);
        EXPECT_NE(checkpoints.resumed(), nullptr);
        if (checkpoints.resumed() == nullptr) return absl::OkStatus();
        EXPECT_EQ(*SavedState(*checkpoints.resumed()).whole_number("rank"), session.rank());
        checkpoints.forget_resumed();
        EXPECT_THAT(*checkpoints.resumed(), IsEmpty());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(recorders_[0].summaries["checkpoints"], nlohmann::json({{"resumed_after_iteration", 3}}));
}

TEST_F(CheckpointsTest, WhatAnotherProgramHasSavedIsRefused) {
  const auto save = [&](const std::vector<std::byte>& bytes) {
    const absl::Status status =
        verbena::testing::run_cluster({.servers = 1, .workers = kWorkers},
                                      [&](Session& session) -> absl::Status {
                                        RETURN_IF_ERROR(open_a_table(session));
                                        RETURN_IF_ERROR(session.checkpoint({.folder = folder()}, bytes));
                                        return session.finish_checkpoint();
                                      })
            .first_error();
    EXPECT_TRUE(status.ok()) << status;
  };
  const auto saved = [](const nlohmann::json& iteration, const nlohmann::json& state) {
    nlohmann::json all = nlohmann::json::object();
    all["iteration"] = iteration;
    all["state"] = state;
    return encode_state(all);
  };
  const nlohmann::json nothing = nlohmann::json::object();
  for (const std::vector<std::byte>& bytes :
       {std::vector<std::byte>{}, std::vector<std::byte>(100, std::byte{0x55}), saved("three", nothing),
        saved(std::uint64_t{3}, "text"), saved(UINT64_MAX, nothing)}) {
    save(bytes);
    // The first worker to find out gives up, and tells the others why.
    const absl::Status status = iterate({}, 5, newest());
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("the checkpoint cannot be gone on from"));
  }
}

TEST_F(CheckpointsTest, AStopIsSavedByAllAndSaidOnce) {
  std::atomic<std::uint64_t> agreement = 0;
  std::vector<std::int64_t> ended(kWorkers);
  const absl::Status status =
      run({.folder = folder(), .every = 1000}, {},
          [&](Checkpoints& checkpoints, Session& session, Recorder& recorder) {
            checkpoints.save_at_stop(recorder.stop, agreement);
            absl::Status ends;
            for (std::int64_t i = 1; ends.ok() && i <= 100; ++i) {
              ended[session.rank()] = i;
              if (i == 5 + session.rank()) recorder.stop = true;
              RETURN_IF_ERROR(session.clock());
              ends = checkpoints.after_iteration(i, i == 100, [] { return nlohmann::json::object(); });
            }
            EXPECT_EQ(ends.code(), absl::StatusCode::kCancelled) << ends;
            EXPECT_TRUE(checkpoints.has_stopped());
            return absl::OkStatus();
          });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ended[0], ended[1]);
  EXPECT_THAT(recorders_[0].lines,
              ElementsAre(fmt::format("stopped after iteration {}, saved as {}: --resume goes on from there",
                                      ended[0], newest())));
  EXPECT_THAT(recorders_[1].lines, IsEmpty());
  EXPECT_THAT(iterations_saved(), ElementsAre(std::to_string(ended[0])));
}

TEST_F(CheckpointsTest, OverSeveralHostsAGateSaysWhereAllStop) {
  std::atomic<std::int64_t> begun = 0;
  const absl::Status status =
      run({.folder = folder(), .every = 1000}, {},
          [&](Checkpoints& checkpoints, Session& session, Recorder& /*recorder*/) {
            StopGate gate(1, false, [&](const StopGate::Begun& answer) { begun = answer.iteration; });
            checkpoints.save_at_stop(gate, 0);
            RETURN_IF_ERROR(checkpoints.load());
            absl::Status ends;
            std::int64_t i = 1;
            for (; ends.ok() && i <= 9; ++i) {
              if (i == 3) gate.hold(15);
              if (i == 3) gate.end_after(5);
              RETURN_IF_ERROR(session.clock());
              ends = checkpoints.after_iteration(i, i == 9, [] { return nlohmann::json::object(); });
            }
            EXPECT_EQ(i, 6);
            EXPECT_EQ(ends.code(), absl::StatusCode::kCancelled) << ends;
            EXPECT_TRUE(checkpoints.has_stopped());
            EXPECT_EQ(gate.ended_by(), 15);
            return absl::OkStatus();
          });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(begun, 3);
  EXPECT_THAT(iterations_saved(), ElementsAre("5"));
}

TEST_F(CheckpointsTest, WhoeverIsNotAskedToStopDoesNot) {
  std::atomic<std::uint64_t> agreement = 0;
  const absl::Status status = run(
      {.folder = folder(), .every = 1000}, {},
      [&](Checkpoints& checkpoints, Session& /*session*/, Recorder& recorder) {
        checkpoints.save_at_stop(recorder.stop, agreement);
        for (std::int64_t i = 1; i <= 3; ++i)
          RETURN_IF_ERROR(checkpoints.after_iteration(i, i == 3, [] { return nlohmann::json::object(); }));
        EXPECT_FALSE(checkpoints.has_stopped());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(iterations_saved(), IsEmpty());
}

TEST_F(CheckpointsTest, OneThatCannotBeWrittenIsNoEnd) {
  verbena::testing::write_file(folder(), "a file, where the folder should be");
  ASSERT_TRUE(iterate({.folder = folder(), .every = 2}, 5).ok());
  EXPECT_THAT(recorders_[0].lines, ElementsAre(HasSubstr("there is no checkpoint of iteration 2: "),
                                               HasSubstr("there is no checkpoint of iteration 4: ")));
  EXPECT_EQ(recorders_[0].summaries["checkpoints"], nlohmann::json({{"written", 0}, {"failed", 2}}));
  EXPECT_THAT(recorders_[1].lines, IsEmpty());
}

}  // namespace
}  // namespace verbena::apps
