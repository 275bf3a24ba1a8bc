#include "apps/inspect/checkpoint_views.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/inspect/saved_run.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::inspect {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

class CheckpointViewsTest : public ::testing::Test {
 protected:
  /// Returns its path.
  std::string save(std::uint64_t clock) {
    SavedRun run(folder_, clock);
    run.add_rows<float>(dense_table(), 1, {1, 2, 3, 4, 5, 6});
    run.add_scattered_rows<std::int64_t>(sparse_table(), {0, 8}, {9, 4, 7}, {1, 2, 3, 4, 5, 6});
    return run.commit();
  }
  static void damage(const std::string& path) {
    std::string bytes = verbena::testing::contents(path);
    ASSERT_FALSE(bytes.empty()) << path;
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    verbena::testing::write_file(path, bytes);
  }

  checkpoint::FileSystem& files_ = checkpoint::host_file_system();
  const verbena::testing::TemporaryFolder scratch_;
  const std::string folder_ = scratch_.path("ckpts");
};

TEST_F(CheckpointViewsTest, AFolderIsListed) {
  save(9);
  save(20);
  damage(save(30) + "/manifest.json");
  std::filesystem::create_directory(folder_ + "/ckpt-40.tmp");
  const auto seen = look_at_folder(files_, folder_);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_THAT(to_text(*seen), MatchesRegex("checkpoint +clock +rows +written +tables +MB +workers +servers\n"
                                           "ckpt-20 +20 +all +2[0-9T:-]+Z +2 +0.0 +2 +1\n"
                                           "ckpt-9 +9 +all +2[0-9T:-]+Z +2 +0.0 +2 +1\n"
                                           "ckpt-30 is damaged: .*/ckpt-30/manifest.json: [^\n]+\n"
                                           "ckpt-40.tmp is unfinished\n"));
  const nlohmann::json json = to_json(*seen);
  EXPECT_EQ(json["folder"], folder_);
  ASSERT_THAT(json["checkpoints"], SizeIs(2));
  const nlohmann::json& newest = json["checkpoints"][0];
  EXPECT_EQ(newest["path"], folder_ + "/ckpt-20");
  EXPECT_EQ(newest["clock"], 20);
  EXPECT_EQ(newest["tables"], nlohmann::json({"weights", "features"}));
  EXPECT_EQ(newest["workers"], 2);
  EXPECT_EQ(newest["servers"], 1);
  EXPECT_EQ(newest["bytes"], std::filesystem::file_size(folder_ + "/ckpt-20/server-0") +
                                 std::filesystem::file_size(folder_ + "/ckpt-20/worker-0"));
  EXPECT_EQ(json["damaged"][0]["name"], "ckpt-30");
  EXPECT_EQ(json["unfinished"], nlohmann::json({"ckpt-40.tmp"}));
}

TEST_F(CheckpointViewsTest, WhereThereIsNoneIsSaid) {
  for (const absl::Status& status :
       {look_at_folder(files_, folder_).status(), look_at_checkpoint(files_, folder_).status(),
        verify_checkpoints(files_, folder_, [](const std::string&, std::uint64_t, std::uint64_t) {
        }).status()}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + ": cannot open the folder"));
  }
  verbena::testing::write_file(scratch_.path("file"), "text");
  EXPECT_TRUE(absl::IsInvalidArgument(look_at_folder(files_, scratch_.path("file")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(look_at_checkpoint(files_, scratch_.path("file")).status()));

  std::filesystem::create_directory(folder_);
  EXPECT_EQ(to_text(look_at_folder(files_, folder_).value()), "no whole checkpoint is in " + folder_ + "\n");
  for (const absl::Status& status :
       {find_checkpoint(files_, folder_).status(),
        verify_checkpoints(files_, folder_, [](const std::string&, std::uint64_t, std::uint64_t) {
        }).status()}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(std::string(status.message()), folder_ + ": there is no checkpoint (ckpt-N) in it");
  }
  damage(save(20) + "/manifest.json");
  const absl::Status damaged = look_at_checkpoint(files_, folder_).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_THAT(std::string(damaged.message()),
              AllOf(HasSubstr("no checkpoint in it is whole"), HasSubstr("ckpt-20 is damaged")));
}

TEST_F(CheckpointViewsTest, ACheckpointOrTheNewestOneIsMeant) {
  const std::string older = save(9);
  const std::string newer = save(20);
  EXPECT_EQ(find_checkpoint(files_, folder_).value(), newer);
  EXPECT_EQ(find_checkpoint(files_, folder_ + "/").value(), newer);
  EXPECT_EQ(find_checkpoint(files_, older).value(), older);
  EXPECT_EQ(find_checkpoint(files_, older + "//").value(), older);
  std::filesystem::rename(older, scratch_.path("kept"));
  EXPECT_EQ(find_checkpoint(files_, scratch_.path("kept")).value(), scratch_.path("kept"));
  std::filesystem::remove(newer + "/manifest.json");
  EXPECT_EQ(find_checkpoint(files_, newer).value(), newer) << "by its name";
  EXPECT_THAT(std::string(look_at_checkpoint(files_, newer).status().message()), HasSubstr("manifest.json"));
}

TEST_F(CheckpointViewsTest, ACheckpointIsInspected) {
  const auto seen = look_at_checkpoint(files_, save(20));
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_THAT(to_text(*seen),
              MatchesRegex(
                  ".*/ckpt-20: clock 20, written 2[0-9T:-]+Z by version 1.2.3; 2 workers, 1 servers; 0.0 MB\n"
                  "\n"
                  "table +keys +width +type +model +rule +rows +of +MB\n"
                  "weights +dense +3 +float +ssp:1 +momentum\\(rate=0.1\\) +2 +5 +0.0\n"
                  "features +sparse +2 +int64_t +asp +add +3 +0.0\n"
                  "features: initially constant\\(value=1\\), seed 7\n"
                  "\n"
                  "part +files +MB +blobs +MB of blobs\n"
                  "server-0 +1 +0.0 +0 +0.0\n"
                  "worker-0 +1 +0.0 +1 +0.0\n"
                  "\n"
                  "notes\n"
                  "data: clicks.ffm\n"));
  const nlohmann::json json = to_json(*seen);
  EXPECT_EQ(json["clock"], 20);
  EXPECT_EQ(json["options"]["notes"]["data"], "clicks.ffm");
  ASSERT_THAT(json["tables"], SizeIs(2));
  EXPECT_EQ(json["tables"][0]["rows"], 2);
  EXPECT_EQ(json["tables"][1]["name"], "features");
  EXPECT_EQ(json["tables"][1]["description"], protocol::description_of(sparse_table()));
  // A chunk of two rows of padded values and the state each, and one of three rows that have keys, too.
  EXPECT_EQ(json["tables"][0]["bytes"], 96 + 2 * (16 + 4));
  EXPECT_EQ(json["tables"][1]["bytes"], 96 + 3 * (8 + 16 + 4));
  EXPECT_EQ(json["parts"][1]["blobs"], nlohmann::json({{{"name", "worker-0"}, {"bytes", 10}}}));
  EXPECT_EQ(json["parts"][0]["bytes"],
            std::filesystem::file_size(json["path"].get<std::string>() + "/server-0"));
}

TEST_F(CheckpointViewsTest, AnIncrementSaysWhatItNeeds) {
  save(20);
  SavedRun run(folder_, 30, 20);
  run.add_rows<float>(dense_table(), 2, {7, 8, 9});
  run.add_scattered_rows<std::int64_t>(sparse_table(), {0, 8}, {9}, {10, 20});
  run.add_removed_rows(sparse_table(), {0, 8}, {4, 7});
  const auto seen = look_at_checkpoint(files_, run.commit());
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_THAT(to_text(*seen),
              AllOf(HasSubstr("\nonly what has changed since ckpt-20, with which it is read\n"),
                    HasSubstr("\nfeatures: 2 rows are there no more\n")));
  const nlohmann::json json = to_json(*seen);
  EXPECT_EQ(json["since"], 20);
  EXPECT_EQ(json["tables"][1]["rows"], 1);
  EXPECT_EQ(json["tables"][1]["removed"], 2);
  const auto folder = look_at_folder(files_, folder_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(to_text(*folder),
              MatchesRegex("[^\n]+\nckpt-30 +30 +since 20 +2[^\n]+\nckpt-20 +20 +all [^\n]+\n"));
  EXPECT_EQ(to_json(*folder)["checkpoints"][0]["since"], 20);

  damage(folder_ + "/ckpt-20/server-0");
  const auto verified = verify_checkpoints(files_, folder_, [](auto&&...) {});
  ASSERT_TRUE(verified.ok()) << verified.status();
  ASSERT_THAT(*verified, SizeIs(2));
  ASSERT_THAT((*verified)[0].damages, SizeIs(1));
  EXPECT_EQ((*verified)[0].damages[0].what, "it builds upon ckpt-20, which is damaged");
  std::filesystem::resize_file(folder_ + "/ckpt-20/server-0", 10);
  const auto shorter = verify_checkpoints(files_, folder_, [](auto&&...) {});
  ASSERT_TRUE(shorter.ok()) << shorter.status();
  for (const VerifiedCheckpoint& one : *shorter) {
    ASSERT_FALSE(one.damages.empty());
    EXPECT_THAT(one.damages[0].advice, HasSubstr("take an older checkpoint, or put back a copy"));
  }
}

/// Whoever has written it.
TEST_F(CheckpointViewsTest, TablesThatAreDescribedOtherwiseAreShownAsFarAsTheyAreKnown) {
  SeenCheckpoint seen{.path = "c", .written = "\x1b[31m", .options = {{"notes", {{"n", {1, 2}}}}}};
  seen.tables = {{.number = 4, .name = "t", .description = {{"rows", 1}}, .rows = 17, .bytes = 0}};
  EXPECT_THAT(to_text(seen), AllOf(HasSubstr("? workers, ? servers"), HasSubstr("17"), HasSubstr("n: [1,2]"),
                                   HasSubstr("t: the description of table 4: expected an attribute \"name\""),
                                   Not(HasSubstr("\x1b"))));
  SeenFolder folder{.path = "f", .complete = {seen}, .damaged = {}, .unfinished = {}};
  EXPECT_THAT(to_text(folder), HasSubstr("?"));
  EXPECT_TRUE(to_json(folder)["checkpoints"][0]["workers"].is_null());
}

TEST_F(CheckpointViewsTest, WhatIsWholeIsVerified) {
  const std::string older = save(9);
  const std::string newer = save(20);
  std::vector<std::string> told;
  std::uint64_t last = 0;
  const auto verified = verify_checkpoints(
      files_, folder_, [&](const std::string& path, std::uint64_t bytes, std::uint64_t all_bytes) {
        if (told.empty() || told.back() != path) told.push_back(path);
        EXPECT_LE(bytes, all_bytes);
        last = bytes;
      });
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(check_whole(*verified), absl::OkStatus());
  EXPECT_EQ(to_text(*verified), newer + ": whole, 0.0 MB\n" + older + ": whole, 0.0 MB\n");
  EXPECT_THAT(told, ElementsAre(newer, older));
  EXPECT_EQ(last, verified->back().bytes);
}

TEST_F(CheckpointViewsTest, EachDamageComesWithAdvice) {
  const auto no_progress = [](const std::string&, std::uint64_t, std::uint64_t) {};
  const std::string whole = save(9);
  const std::string flipped = save(20);
  const std::string renamed = save(30);
  damage(flipped + "/server-0");
  std::filesystem::remove(flipped + "/worker-0");
  std::filesystem::rename(renamed, folder_ + "/ckpt-31");
  const auto verified = verify_checkpoints(files_, folder_, no_progress);
  ASSERT_TRUE(verified.ok()) << verified.status();
  const std::string text = to_text(*verified);
  EXPECT_THAT(text,
              AllOf(HasSubstr(whole + ": whole"), HasSubstr(flipped + ": damaged\n"),
                    HasSubstr("  " + flipped + "/server-0: offset "),
                    HasSubstr("(take an older checkpoint, or put back a copy of the file)\n"),
                    HasSubstr("  " + flipped + "/worker-0: offset 0: "),
                    HasSubstr("  " + folder_ + "/ckpt-31: offset 0: expected clock 31, found 30 (give")));
  const absl::Status status = check_whole(*verified);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(status.message()), "2 of 3 checkpoints are damaged");

  const auto one = verify_checkpoints(files_, flipped, no_progress);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(one->front().damages, SizeIs(2));
  EXPECT_EQ(std::string(check_whole(*one).message()), flipped + ": the checkpoint is damaged");
  std::filesystem::remove(flipped + "/manifest.json");
  EXPECT_THAT(verify_checkpoints(files_, flipped, no_progress)->front().damages, SizeIs(1));
  EXPECT_THAT(verify_checkpoints(files_, whole, no_progress)->front().damages, IsEmpty());
}

}  // namespace
}  // namespace verbena::apps::inspect
