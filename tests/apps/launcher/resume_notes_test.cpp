#include "apps/launcher/resume_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/options/numbers.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using verbena::testing::write_file;

/// Reads two kinds of files, and has options of all sorts.
class Model final : public Application {
 public:
  [[nodiscard]] std::string_view name() const override { return "model"; }
  [[nodiscard]] std::string_view description() const override { return "of a test"; }
  [[nodiscard]] std::string_view throughput_unit() const override { return "items"; }
  [[nodiscard]] std::string_view main_objective() const override { return "objective"; }
  void add_options(CLI::App& command) override {
    command.add_option("--data", data_);
    command.add_option("--words", words_);
    command.add_option("--output", output_);
    add_number(command, "--topics", topics_, "")->capture_default_str();
    add_number(command, "--iterations", iterations_, "")->capture_default_str();
    command.add_flag("--flag", flag_);
  }
  [[nodiscard]] Files files() const override {
    Files files;
    for (const std::string& path : data_) files.reads("--data", path);
    if (words_ != "english") files.reads("--words", words_);
    files.writes("--output", output_);
    return files;
  }
  absl::Status check(std::uint32_t /*workers*/) override { return absl::OkStatus(); }
  [[nodiscard]] std::int64_t iterations() const override { return iterations_; }
  [[nodiscard]] bool can_be_resumed() const override { return true; }
  absl::Status goes_on_from(const std::map<std::string, std::string>& notes) override {
    saved_topics = notes.at("--topics");
    return saved_topics == "0" ? absl::InvalidArgumentError("nothing to go on with") : absl::OkStatus();
  }
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override {
    return sums;
  }
  absl::Status run_worker(WorkerContext& /*context*/) const override { return absl::OkStatus(); }
  absl::Status run_baseline(BaselineContext& /*context*/) const override { return absl::OkStatus(); }

  std::string saved_topics;

 private:
  std::vector<std::string> data_;
  std::string words_;
  std::string output_;
  std::int64_t topics_ = 50;
  std::int64_t iterations_ = 30;
  bool flag_ = false;
};

class ResumeNotesTest : public ::testing::Test {
 protected:
  ResumeNotesTest() {
    write_file(path("a"), "some data");
    write_file(path("b"), "more data");
    job_.consistency = "bsp";
    job_.workers = 2;
    job_.threads = 3;
  }

  struct Parsed {
    explicit Parsed(std::vector<std::string> arguments) : options(command, model) {
      std::reverse(arguments.begin(), arguments.end());
      command.parse(arguments);
    }
    CLI::App command;
    Model model;
    ApplicationOptions options;
  };
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  /// A checkpoint of a run with these arguments.
  [[nodiscard]] CheckpointSummary written(const std::vector<std::string>& arguments) const {
    Parsed parsed(arguments);
    auto notes = resume_notes(parsed.model, parsed.options, job_);
    EXPECT_TRUE(notes.ok()) << notes.status();
    (*notes)[kIterationNote] = "20";
    return {.clock = 40, .path = "saved/ckpt-40", .workers = 6, .servers = 1, .notes = *std::move(notes)};
  }
  [[nodiscard]] std::string refusal(const CheckpointSummary& checkpoint,
                                    const std::vector<std::string>& arguments) const {
    Parsed parsed(arguments);
    const absl::Status status = check_resume(checkpoint, parsed.model, parsed.options, job_);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  verbena::testing::TemporaryFolder folder_;
  JobOptions job_;
};

TEST_F(ResumeNotesTest, TheSameRunGoesOn) {
  EXPECT_EQ(refusal(written({"--data", path("a")}), {"--data", path("a")}), "");
  EXPECT_EQ(refusal(written({"--data", path("a"), "--flag"}), {"--flag", "--data", path("a")}), "");
  EXPECT_EQ(refusal(written({"--data", path("a")}), {"--data", path("a"), "--topics", "50"}), "");
}

TEST_F(ResumeNotesTest, TheApplicationIsToldWhatItGoesOnFrom) {
  CheckpointSummary checkpoint = written({"--data", path("a"), "--topics", "7"});
  Parsed parsed({"--data", path("a"), "--topics", "7"});
  EXPECT_TRUE(check_resume(checkpoint, parsed.model, parsed.options, job_).ok());
  EXPECT_EQ(parsed.model.saved_topics, "7");
  EXPECT_THAT(refusal(written({"--data", path("a"), "--topics", "0"}), {"--data", path("a")}),
              HasSubstr("nothing to go on with"));
  checkpoint.notes["application"] = "another";
  Parsed other({"--data", path("a"), "--topics", "7"});
  EXPECT_FALSE(check_resume(checkpoint, other.model, other.options, job_).ok());
  EXPECT_EQ(other.model.saved_topics, "");
}

TEST_F(ResumeNotesTest, WhatMayDifferMay) {
  const CheckpointSummary checkpoint = written({"--data", path("a"), "--output", path("x")});
  EXPECT_EQ(refusal(checkpoint, {"--data", path("a"), "--output", path("y"), "--iterations", "40"}), "");
  EXPECT_EQ(refusal(checkpoint, {"--data", path("a"), "--iterations", "20"}), "");
  std::filesystem::rename(path("a"), path("moved"));
  EXPECT_EQ(refusal(checkpoint, {"--data", path("moved")}), "") << "the same bytes under another name";
  job_.servers = 4;
  EXPECT_EQ(refusal(checkpoint, {"--data", path("moved")}), "");
}

TEST_F(ResumeNotesTest, WhatDiffersIsNamed) {
  const CheckpointSummary checkpoint = written({"--data", path("a")});
  EXPECT_THAT(refusal(checkpoint, {"--data", path("a"), "--topics", "100"}),
              HasSubstr("--topics was 50 when saved/ckpt-40 was written, now 100"));
  EXPECT_THAT(refusal(checkpoint, {"--data", path("a"), "--topics", "100", "--flag"}),
              AllOf(HasSubstr("--flag was not given when saved/ckpt-40 was written, now true"),
                    HasSubstr("; --topics was 50, now 100;")));
  EXPECT_THAT(refusal(checkpoint, {"--data", path("a"), "--iterations", "19"}),
              HasSubstr("saved/ckpt-40 is after iteration 20: expected at least so many, found 19"));
  job_.workers = 3;
  EXPECT_THAT(refusal(checkpoint, {"--data", path("a")}),
              HasSubstr("the number of workers was 6 when saved/ckpt-40 was written, now 9"));
  job_.workers = 2;
  job_.consistency = "ssp:2";
  EXPECT_THAT(refusal(checkpoint, {"--data", path("a")}),
              AllOf(HasSubstr("--consistency was bsp"), HasSubstr("now ssp:2")));
}

TEST_F(ResumeNotesTest, OtherDataIsNamed) {
  const CheckpointSummary checkpoint = written({"--data", path("a"), "--data", path("b")});
  EXPECT_EQ(refusal(checkpoint, {"--data", path("a"), "--data", path("b")}), "");
  EXPECT_THAT(refusal(checkpoint, {"--data", path("b"), "--data", path("a")}),
              AllOf(HasSubstr("--data: file 1 was 9 bytes, checksum"), HasSubstr("--data: file 2 was")));
  EXPECT_THAT(refusal(checkpoint, {"--data", path("a")}), HasSubstr("--data was 2 files when"));
  write_file(path("b"), "more date");
  EXPECT_THAT(refusal(checkpoint, {"--data", path("a"), "--data", path("b")}),
              AllOf(HasSubstr("--data: file 2 was"), Not(HasSubstr("file 1"))));
  // An option that may name a file, and does not always.
  write_file(path("words"), "the");
  EXPECT_THAT(refusal(written({"--words", "english"}), {"--words", path("words")}),
              HasSubstr("--words was english when saved/ckpt-40 was written, now a file"));
  const Parsed some({"--data", path("none"), path("a")});
  const auto notes = resume_notes(some.model, some.options, job_);
  ASSERT_TRUE(notes.ok()) << "a name that a file might have had: " << notes.status();
  EXPECT_EQ(notes->at("--data"), "a file");
  const Parsed missing({"--data", path("none")});
  EXPECT_TRUE(absl::IsNotFound(resume_notes(missing.model, missing.options, job_).status()));
}

TEST_F(ResumeNotesTest, OnlyCheckpointsOfThisApplication) {
  CheckpointSummary checkpoint = written({});
  checkpoint.notes["application"] = "lda";
  EXPECT_THAT(refusal(checkpoint, {}),
              HasSubstr("the application was lda when saved/ckpt-40 was written, now model"));
  checkpoint.notes.clear();
  EXPECT_THAT(refusal(checkpoint, {}), HasSubstr("`verbena run` has not written it"));
  checkpoint.notes[kIterationNote] = "-3x";
  EXPECT_THAT(refusal(checkpoint, {}), HasSubstr("`verbena run` has not written it"));
}

TEST_F(ResumeNotesTest, WithoutACheckpointARunBegins) {
  Parsed parsed({});
  job_.checkpoints = {.folder = path("saved"), .resume = true};
  EXPECT_TRUE(decide_resume(job_, parsed.model, parsed.options).ok());
  EXPECT_EQ(job_.checkpoints.resume_from, "");
  job_.checkpoints = {.resume_from = path("none")};
  EXPECT_FALSE(decide_resume(job_, parsed.model, parsed.options).ok());
}

}  // namespace
}  // namespace verbena::apps
