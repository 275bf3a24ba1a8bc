#include "checkpoint/folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest_json.hpp"
#include "checkpoint/part_description.hpp"
#include "checkpoint/part_writer.hpp"
#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"

namespace verbena::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

class FolderTest : public ::testing::Test {
 protected:
  void write(std::uint64_t clock, unsigned seed) {
    EXPECT_EQ(write_checkpoint(disk_, folder_, clock, content_of(seed)), absl::OkStatus());
  }
  [[nodiscard]] std::vector<std::string> complete() {
    std::vector<std::string> names;
    const Folder::Listing listing = folder_.list().value();
    for (const Folder::Complete& one : listing.complete) names.push_back(one.name);
    return names;
  }
  [[nodiscard]] std::vector<std::string> unfinished() { return folder_.list().value().unfinished; }
  /// The seed of the newest valid checkpoint; 0: there is none.
  [[nodiscard]] unsigned newest() {
    const auto found = folder_.newest_valid();
    if (!found.ok()) return 0;
    const Content content = load(found->reader).value();
    for (unsigned seed = 1; seed < 10; ++seed) {
      if (content == content_of(seed)) return seed;
    }
    return 0;
  }

  SimulatedDisk disk_;
  Folder folder_{disk_, "a/b/ckpts/"};
};

TEST_F(FolderTest, MakesWhatIsMissingAbove) {
  EXPECT_EQ(folder_.list().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(folder_.newest_valid().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(folder_.discard(20), absl::OkStatus());
  EXPECT_EQ(folder_.begin(20).value(), "a/b/ckpts/ckpt-20.tmp");
  EXPECT_THAT(complete(), IsEmpty());
  EXPECT_THAT(unfinished(), ElementsAre("ckpt-20.tmp"));
  const absl::Status none = folder_.newest_valid().status();
  EXPECT_EQ(std::string(none.message()), "a/b/ckpts: there is no checkpoint");
}

TEST_F(FolderTest, ListsTheLargestClockFirst) {
  write(9, 1);
  write(100, 2);
  write(20, 3);
  EXPECT_THAT(complete(), ElementsAre("ckpt-100", "ckpt-20", "ckpt-9"));
  const Folder::Complete first = folder_.list()->complete[0];
  EXPECT_EQ(first.clock, 100U);
  EXPECT_EQ(first.path, "a/b/ckpts/ckpt-100");
  EXPECT_THAT(first.written, MatchesRegex("2[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+Z"));
  EXPECT_GT(first.bytes, 1000U);
  EXPECT_EQ(newest(), 2U);
}

TEST_F(FolderTest, OtherNamesAreNotItsAffair) {
  write(20, 1);
  for (const char* const name : {"ckpt-", "ckpt-07", "ckpt-x", "ckpt-1.tmp.tmp", "ckpt--1", "ckpt-1.bak",
                                 "ckpt-99999999999999999999", "notes"}) {
    disk_.put_folder(std::string("a/b/ckpts/") + name);
    EXPECT_FALSE(is_checkpoint_name(name)) << name;
  }
  for (const char* const name : {"ckpt-0", "ckpt-20.tmp", "ckpt-20.old", "ckpt-20.gone"})
    EXPECT_TRUE(is_checkpoint_name(name)) << name;
  EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
  EXPECT_THAT(unfinished(), IsEmpty());
  EXPECT_THAT(folder_.list()->damaged, IsEmpty());
}

TEST_F(FolderTest, NamesWhatIsDamagedAndPassesItOver) {
  for (unsigned seed = 1; seed < 6; ++seed) write(seed * 10, seed);
  disk_.bytes_of("a/b/ckpts/ckpt-50/manifest.json")[7] ^= 1;
  ASSERT_EQ(disk_.remove_file("a/b/ckpts/ckpt-40/manifest.json"), absl::OkStatus());
  disk_.bytes_of("a/b/ckpts/ckpt-30/server-0").pop_back();
  disk_.bytes_of("a/b/ckpts/ckpt-20/server-0").back() ^= 1;  // list() does not read so far

  EXPECT_THAT(complete(), ElementsAre("ckpt-20", "ckpt-10"));
  const auto damaged = folder_.list()->damaged;
  ASSERT_THAT(damaged, SizeIs(3));
  EXPECT_EQ(damaged[0].name, "ckpt-50");
  EXPECT_THAT(damaged[0].reason, AllOf(HasSubstr("ckpt-50/manifest.json"), HasSubstr("checksum")));
  EXPECT_EQ(damaged[1].name, "ckpt-40");
  EXPECT_THAT(damaged[1].reason, HasSubstr("ckpt-40/manifest.json: cannot open: No such file"));
  EXPECT_EQ(damaged[2].name, "ckpt-30");
  EXPECT_THAT(damaged[2].reason, HasSubstr("ckpt-30/server-0: expected"));

  EXPECT_EQ(newest(), 1U);
  const auto passed_over = folder_.newest_valid()->passed_over;
  ASSERT_THAT(passed_over, SizeIs(4));
  EXPECT_EQ(passed_over[3].name, "ckpt-20");
  EXPECT_THAT(passed_over[3].reason, HasSubstr("ckpt-20/server-0: offset"));

  disk_.bytes_of("a/b/ckpts/ckpt-10/server-0").back() ^= 1;
  const absl::Status none = folder_.newest_valid().status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDataLoss);
  for (const char* const name : {"ckpt-10", "ckpt-20", "ckpt-30", "ckpt-40", "ckpt-50"})
    EXPECT_THAT(std::string(none.message()), HasSubstr(std::string("; ") + name + " is damaged: "));
}

TEST_F(FolderTest, FindsTheNewestOfThoseThatCount) {
  for (const std::uint64_t clock : {10U, 20U, 30U}) write(clock, 1);
  EXPECT_EQ(folder_.list()->complete[0].run, kSampleRun);
  const auto newest_below = [&](std::uint64_t clock) {
    return folder_.newest_valid([=](const Folder::Complete& one) { return one.clock < clock; });
  };
  EXPECT_EQ(newest_below(31)->reader.path(), "a/b/ckpts/ckpt-30");
  EXPECT_EQ(newest_below(30)->reader.path(), "a/b/ckpts/ckpt-20");
  EXPECT_THAT(newest_below(30)->passed_over, IsEmpty());
  EXPECT_EQ(newest_below(10).status().code(), absl::StatusCode::kNotFound);
  disk_.bytes_of("a/b/ckpts/ckpt-30/server-0").back() ^= 1;
  disk_.bytes_of("a/b/ckpts/ckpt-10/server-0").back() ^= 1;
  EXPECT_THAT(newest_below(30)->passed_over, IsEmpty());
  const absl::Status none = newest_below(20).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(none.message()), AllOf(HasSubstr("ckpt-10 is damaged"), Not(HasSubstr("ckpt-30"))));
}

TEST_F(FolderTest, AFolderThatWasRenamedIsOfAnotherClock) {
  write(20, 1);
  ASSERT_EQ(disk_.rename("a/b/ckpts/ckpt-20", "a/b/ckpts/ckpt-30"), absl::OkStatus());
  EXPECT_THAT(complete(), IsEmpty());
  const auto damaged = folder_.list()->damaged;
  ASSERT_THAT(damaged, SizeIs(1));
  EXPECT_THAT(damaged[0].reason, HasSubstr("expected clock 30, found 20"));
}

TEST_F(FolderTest, CommitRefusesOtherFilesThanTheManifests) {
  const std::string path = folder_.begin(20).value();
  const Manifest manifest = manifest_of(20, write_parts(disk_, path, 20, content_of(1)).value());
  const auto refusal = [&] {
    const absl::Status status = folder_.commit(manifest);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(complete(), IsEmpty());
    return std::string(status.message());
  };
  const std::string bytes = disk_.bytes_of(path + "/server-1.1");
  disk_.bytes_of(path + "/server-1.1").pop_back();
  EXPECT_THAT(refusal(), HasSubstr("ckpt-20.tmp/server-1.1: expected"));
  ASSERT_EQ(disk_.remove_file(path + "/server-1.1"), absl::OkStatus());
  EXPECT_THAT(refusal(), HasSubstr("ckpt-20.tmp/server-1.1: the manifest names it, but it is not there"));
  disk_.put_file(path + "/server-1.1", bytes);
  disk_.put_file(path + "/server-2", "");
  EXPECT_THAT(refusal(), HasSubstr("ckpt-20.tmp/server-2: a file that the manifest does not name"));
  ASSERT_EQ(disk_.remove_file(path + "/server-2"), absl::OkStatus());
  disk_.put_file(path + "/manifest.json.tmp", "of an attempt that has failed");
  EXPECT_EQ(folder_.commit(manifest), absl::OkStatus());
  EXPECT_EQ(newest(), 1U);
}

TEST_F(FolderTest, CommitReadsWhatPartsAreDescribedAs) {
  const std::string path = folder_.begin(20).value();
  const auto parts = write_parts(disk_, path, 20, content_of(1)).value();
  std::vector<std::string> names;
  for (const Part& part : parts) {
    ASSERT_EQ(describe_part(disk_, path, part), absl::OkStatus());
    names.push_back(part.name);
  }
  EXPECT_EQ(describe_part(disk_, path, parts[0]).code(), absl::StatusCode::kAlreadyExists);
  const auto refusal = [&](std::span<const std::string> described) {
    const absl::Status status = folder_.commit(manifest_of(20, {}), described);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(complete(), IsEmpty());
    return std::string(status.message());
  };
  const std::string bytes = disk_.bytes_of(path + "/server-1.part");
  disk_.bytes_of(path + "/server-1.part") = bytes.substr(0, bytes.size() - 1);
  EXPECT_THAT(refusal(names), HasSubstr("ckpt-20.tmp/server-1.part: expected JSON"));
  disk_.bytes_of(path + "/server-1.part") = disk_.bytes_of(path + "/server-0.part");
  EXPECT_THAT(refusal(names), HasSubstr("ckpt-20.tmp/server-1.part: expected part server-1, found server-0"));
  ASSERT_EQ(disk_.remove_file(path + "/server-1.part"), absl::OkStatus());
  EXPECT_THAT(refusal(names), HasSubstr("ckpt-20.tmp/server-1.part: cannot open"));
  disk_.put_file(path + "/server-1.part", bytes);
  EXPECT_THAT(refusal(std::span(names).first(2)), HasSubstr("a file that the manifest does not name"));

  EXPECT_EQ(folder_.commit(manifest_of(20, {}), names), absl::OkStatus());
  EXPECT_EQ(newest(), 1U);
  const Manifest manifest = read_manifest(disk_, "a/b/ckpts/ckpt-20").value();
  ASSERT_THAT(manifest.parts, SizeIs(3));
  EXPECT_EQ(manifest.parts[2].name, "worker-0");
  EXPECT_THAT(disk_.paths(), Not(Contains(HasSubstr(".part"))));
}

TEST_F(FolderTest, CommitRefusesADescriptionThatIsNotOfIts) {
  const std::string path = folder_.begin(20).value();
  const Manifest manifest = manifest_of(20, write_parts(disk_, path, 20, content_of(1)).value());
  disk_.put_file(path + "/server-7.part", encode(manifest.parts[0]));
  EXPECT_THAT(std::string(folder_.commit(manifest).message()),
              HasSubstr("server-7.part: a file that the manifest does not name"));
  ASSERT_EQ(disk_.remove_file(path + "/server-7.part"), absl::OkStatus());
  disk_.put_file(path + "/server-0.part", encode(manifest.parts[0]));
  EXPECT_EQ(folder_.commit(manifest), absl::OkStatus());
  EXPECT_THAT(disk_.paths(), Not(Contains(HasSubstr(".part"))));
}

TEST_F(FolderTest, CommitRefusesAManifestThatCouldNotBeRead) {
  const std::string path = folder_.begin(20).value();
  Manifest manifest = manifest_of(20, write_parts(disk_, path, 20, content_of(1)).value());
  manifest.tables.pop_back();
  EXPECT_EQ(folder_.commit(manifest).code(), absl::StatusCode::kInvalidArgument);
  manifest.clock = 21;
  EXPECT_FALSE(folder_.commit(manifest).ok()) << "nothing was begun for it";
  EXPECT_THAT(complete(), IsEmpty());
}

TEST_F(FolderTest, BeginRemovesWhatADeadWriterHasLeft) {
  const std::string path = folder_.begin(20).value();
  ASSERT_TRUE(write_parts(disk_, path, 20, content_of(1)).ok());
  disk_.bytes_of(path + "/server-0").resize(5);
  disk_.bytes_of(path + "/server-1") = std::string(100, '\0');
  disk_.bytes_of(path + "/worker-0").clear();
  disk_.put_file(path + "/manifest.json", "half");
  disk_.put_file(path + "/server-0.part", "{\"blobs\":[{");
  disk_.put_file(path + "/server-1.part", std::string(100, '\0'));
  disk_.put_file(path + "/worker-0.part", "");
  write(20, 2);
  EXPECT_EQ(newest(), 2U);
}

TEST_F(FolderTest, WhatIsNotItsOwnIsNotRemoved) {
  const auto is_refused = [&](const std::string& folder, const std::string& name) {
    const std::size_t before = disk_.paths().size();
    const absl::Status discarded = folder_.discard(20);
    EXPECT_EQ(discarded.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(discarded.message()),
                HasSubstr(folder + "/" + name + ": it is no file of a checkpoint"));
    EXPECT_EQ(folder_.begin(20).status(), discarded);
    EXPECT_EQ(disk_.paths().size(), before) << "nothing is removed";
  };
  const std::string path = folder_.begin(20).value();
  ASSERT_TRUE(write_parts(disk_, path, 20, content_of(1)).ok());
  disk_.put_file(path + "/notes.txt", "mine");
  is_refused(path, "notes.txt");
  ASSERT_EQ(disk_.remove_file(path + "/notes.txt"), absl::OkStatus());
  disk_.put_file(path + "/thesis", "mine, with a name that a part could have");
  is_refused(path, "thesis");
  ASSERT_EQ(disk_.remove_file(path + "/thesis"), absl::OkStatus());
  disk_.put_file(path + "/spare.part", "mine, too");
  is_refused(path, "spare.part");
  ASSERT_EQ(disk_.remove_file(path + "/spare.part"), absl::OkStatus());
  disk_.put_link(path + "/link");
  is_refused(path, "link");
  ASSERT_EQ(disk_.remove_file(path + "/link"), absl::OkStatus());
  disk_.put_folder(path + "/folder");
  is_refused(path, "folder");
  ASSERT_EQ(disk_.remove_folder(path + "/folder"), absl::OkStatus());
  EXPECT_EQ(folder_.discard(20), absl::OkStatus());
  EXPECT_EQ(folder_.discard(20), absl::OkStatus()) << "it is gone";
  EXPECT_THAT(disk_.paths(), IsEmpty());
}

TEST_F(FolderTest, AnotherCheckpointOfTheSameClockTakesItsPlace) {
  write(20, 1);
  const std::string path = folder_.begin(20).value();
  EXPECT_EQ(newest(), 1U) << "it is still there";
  ASSERT_EQ(folder_.commit(manifest_of(20, write_parts(disk_, path, 20, content_of(2)).value())),
            absl::OkStatus());
  EXPECT_EQ(newest(), 2U);
  EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
  EXPECT_THAT(unfinished(), IsEmpty());
}

TEST_F(FolderTest, ADamagedOneOfTheSameClockIsReplaced) {
  write(20, 1);
  disk_.bytes_of("a/b/ckpts/ckpt-20/manifest.json")[7] ^= 1;
  write(20, 2);
  EXPECT_EQ(newest(), 2U);
  EXPECT_THAT(folder_.list()->damaged, IsEmpty());
}

TEST_F(FolderTest, TheOldOneCountsUntilThereIsANewOne) {
  write(20, 1);
  ASSERT_EQ(disk_.rename("a/b/ckpts/ckpt-20", "a/b/ckpts/ckpt-20.old"), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-20.old"));
  EXPECT_EQ(newest(), 1U);
  ASSERT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_EQ(newest(), 1U);
  write(20, 2);
  EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
  EXPECT_EQ(newest(), 2U);
}

/// Both are there when the old one could not be removed; then the new one may be damaged.
TEST_F(FolderTest, TheBetterOfTwoStaysUntilThereIsANewOne) {
  for (const bool is_damaged : {false, true}) {
    write(20, 1);
    disk_.intercept([](SimulatedDisk::Operation /*operation*/, const std::string& path) {
      return path.ends_with(".old") ? absl::UnavailableError("not now") : absl::OkStatus();
    });
    write(20, 2);
    disk_.intercept(nullptr);
    EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
    EXPECT_THAT(unfinished(), ElementsAre("ckpt-20.old"));
    EXPECT_EQ(newest(), 2U);
    if (is_damaged) {
      disk_.bytes_of("a/b/ckpts/ckpt-20/manifest.json")[7] ^= 1;
      EXPECT_THAT(complete(), ElementsAre("ckpt-20.old"));
      EXPECT_EQ(newest(), 1U);
    }
    write(20, 3);
    EXPECT_EQ(newest(), 3U);
    EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
    EXPECT_THAT(unfinished(), IsEmpty());
  }
}

TEST_F(FolderTest, WhatIsNoFolderIsNotRemoved) {
  write(20, 1);
  disk_.put_link("a/b/ckpts/ckpt-30");
  disk_.put_link("a/b/ckpts/ckpt-40.tmp");
  for (const std::uint64_t clock : {30U, 40U}) {
    const absl::Status status = write_checkpoint(disk_, folder_, clock, content_of(2));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected a folder, found something else"));
  }
  EXPECT_EQ(newest(), 1U);
}

TEST_F(FolderTest, SomethingElseInItsPlaceIsNotRemoved) {
  write(20, 1);
  disk_.put_file("a/b/ckpts/ckpt-20/notes.txt", "mine");
  const absl::Status status = write_checkpoint(disk_, folder_, 20, content_of(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ckpt-20/notes.txt"));
  EXPECT_EQ(newest(), 1U);
}

TEST_F(FolderTest, KeepsTheNewest) {
  for (unsigned seed = 1; seed < 6; ++seed) write(seed * 10, seed);
  EXPECT_EQ(folder_.keep(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(folder_.keep(9), absl::OkStatus());
  EXPECT_THAT(complete(), SizeIs(5));
  EXPECT_EQ(folder_.keep(3), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-50", "ckpt-40", "ckpt-30"));
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-50"));
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_EQ(newest(), 5U);
  EXPECT_THAT(unfinished(), IsEmpty());
}

TEST_F(FolderTest, KeepsWhatIsToStayBesides) {
  for (unsigned seed = 1; seed < 6; ++seed) write(seed * 10, seed);
  const auto is_the_first = [](const Folder::Complete& one) { return one.clock == 10; };
  EXPECT_EQ(folder_.keep(2, UINT64_MAX, is_the_first), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-50", "ckpt-40", "ckpt-10"));
}

/// Of another run, or newer than what this run has gone on from.
TEST_F(FolderTest, LaterOnesStayAndDoNotCount) {
  write(90, 1);
  write(80, 2);
  for (unsigned seed = 3; seed < 6; ++seed) {
    write(seed, seed);
    EXPECT_EQ(folder_.keep(2, seed), absl::OkStatus());
  }
  ASSERT_TRUE(folder_.begin(6).ok());
  EXPECT_EQ(folder_.keep(1, 5), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-90", "ckpt-80", "ckpt-5"));
  EXPECT_THAT(unfinished(), ElementsAre("ckpt-6.tmp"));
  EXPECT_EQ(folder_.keep(1, 2), absl::OkStatus());
  EXPECT_THAT(complete(), SizeIs(3));
}

/// A run that goes on removes the old ones when there are newer ones.
TEST_F(FolderTest, OneThatIsRemovedWhileItIsReadIsPassedOverInSilence) {
  write(20, 2);
  int looks = 0;
  const auto found = folder_.newest_valid([&](const Folder::Complete& /*one*/) {
    if (looks++ == 0) {
      write(30, 3);
      EXPECT_EQ(folder_.keep(1), absl::OkStatus());
    }
    return true;
  });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->reader.manifest().clock, 30U);
  EXPECT_THAT(found->passed_over, IsEmpty());
}

TEST_F(FolderTest, DamagedOnesAreNotCountedAndStay) {
  write(10, 1);
  write(20, 2);
  write(30, 3);
  disk_.bytes_of("a/b/ckpts/ckpt-30/manifest.json")[7] ^= 1;
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
  EXPECT_THAT(folder_.list()->damaged, SizeIs(1));
  EXPECT_EQ(newest(), 2U);
}

TEST_F(FolderTest, KeepRemovesWhatIsLeftOfOthersButNotWhatIsBeingWritten) {
  ASSERT_TRUE(folder_.begin(10).ok());
  write(15, 1);
  ASSERT_EQ(disk_.rename("a/b/ckpts/ckpt-15", "a/b/ckpts/ckpt-15.gone"), absl::OkStatus());
  ASSERT_EQ(disk_.remove_file("a/b/ckpts/ckpt-15.gone/server-0"), absl::OkStatus());
  write(20, 2);
  ASSERT_TRUE(folder_.begin(30).ok());
  EXPECT_EQ(folder_.keep(5), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
  EXPECT_THAT(unfinished(), ElementsAre("ckpt-30.tmp"));
}

TEST_F(FolderTest, KeepRemovesAnOldOneThatIsNotNeeded) {
  write(20, 1);
  disk_.intercept([](SimulatedDisk::Operation /*operation*/, const std::string& path) {
    return path.ends_with(".old") ? absl::UnavailableError("not now") : absl::OkStatus();
  });
  write(20, 2);
  disk_.intercept(nullptr);
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_THAT(complete(), ElementsAre("ckpt-20"));
  EXPECT_THAT(unfinished(), IsEmpty());
}

TEST_F(FolderTest, WithoutAWholeOneNothingIsRemoved) {
  ASSERT_TRUE(folder_.begin(10).ok());
  EXPECT_EQ(folder_.keep(1), absl::OkStatus());
  EXPECT_THAT(unfinished(), ElementsAre("ckpt-10.tmp"));
}

TEST_F(FolderTest, OneThatCannotBeRemovedDoesNotKeepTheOthers) {
  for (unsigned seed = 1; seed < 5; ++seed) write(seed * 10, seed);
  disk_.put_file("a/b/ckpts/ckpt-20/notes.txt", "mine");
  EXPECT_THAT(std::string(folder_.keep(1).message()), HasSubstr("ckpt-20/notes.txt"));
  EXPECT_THAT(complete(), ElementsAre("ckpt-40", "ckpt-20"));
}

}  // namespace
}  // namespace verbena::checkpoint
