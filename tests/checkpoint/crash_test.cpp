// The power goes before each operation of writing a checkpoint, and each disk that may be found then is
// examined.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/manifest_json.hpp"
#include "checkpoint/part_description.hpp"
#include "checkpoint/verify.hpp"
#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"

namespace verbena::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Operation = SimulatedDisk::Operation;

constexpr std::uint64_t kOldClock = 10;
/// The power goes before every operation, or before one in so many.
#ifdef VERBENA_SANITIZED
constexpr int kCrashStep = 5;
#else
constexpr int kCrashStep = 1;
#endif

const Content& old_content() {
  static const Content kContent = content_of(1);
  return kContent;
}
const Content& new_content() {
  static const Content kContent = content_of(2);
  return kContent;
}

/// What is done on a disk that has a checkpoint of kOldClock already, or nothing at all: writes another.
struct Scenario {
  bool has_old = true;
  std::uint64_t new_clock = 20;
  /// Sets `committed` once it has been promised that the new checkpoint is there.
  std::function<absl::Status(SimulatedDisk& disk, Folder& folder, bool& committed)> run;
  std::string without_syncs_of;  ///< SimulatedDisk::ignore_syncs_of()
  int first_crash = 0;           ///< the operation before which the power goes first
  int crash_step = kCrashStep;
};

absl::Status write_new(SimulatedDisk& disk, Folder& folder, std::uint64_t clock, bool& committed) {
  RETURN_IF_ERROR(write_checkpoint(disk, folder, clock, new_content()));
  committed = true;
  return absl::OkStatus();
}

SimulatedDisk disk_with_old_checkpoint() {
  SimulatedDisk disk;
  Folder folder(disk, "run/ckpts");
  EXPECT_EQ(write_checkpoint(disk, folder, kOldClock, old_content()), absl::OkStatus());
  disk.settle();
  return disk;
}

/// What is wrong with a disk after a crash; empty: nothing.
std::string fault_of(SimulatedDisk& disk, const Scenario& scenario, bool committed) {
  const Folder folder(disk, "run/ckpts");
  const bool may_be_empty = !scenario.has_old && !committed;
  const auto listing = folder.list();
  if (!listing.ok()) return may_be_empty ? "" : listing.status().ToString();
  if (!listing->damaged.empty()) return "damaged: " + listing->damaged[0].reason;
  for (const Folder::Complete& complete : listing->complete) {
    const std::vector<Damage> damages = verify(disk, complete.path);
    if (!damages.empty()) return to_string(damages[0]);
    const std::vector<FolderEntry> entries = disk.list(complete.path).value();
    if (std::ranges::any_of(entries, is_part_description_name, &FolderEntry::name))
      return complete.path + ": a description that was not removed";
  }
  const auto newest = folder.newest_valid();
  if (!newest.ok()) return may_be_empty ? "" : newest.status().ToString();
  const auto found = load(newest->reader);
  if (!found.ok()) return found.status().ToString();
  const bool is_new = *found == new_content();
  if (!is_new && (committed || *found != old_content())) return "other content";
  if (newest->reader.manifest().clock != (is_new ? scenario.new_clock : kOldClock)) return "another clock";
  return "";
}

/// What a job does that starts on this disk: the same again, which must succeed and leave nothing behind.
std::string fault_after_restart(SimulatedDisk& disk, std::uint64_t clock) {
  Folder folder(disk, "run/ckpts");
  if (const absl::Status written = write_checkpoint(disk, folder, clock, new_content()); !written.ok())
    return "restart: " + written.ToString();
  if (const absl::Status kept = folder.keep(1); !kept.ok()) return "restart: " + kept.ToString();
  const auto listing = folder.list();
  if (!listing.ok() || listing->complete.size() != 1 || !listing->unfinished.empty())
    return "restart: something is left behind";
  const auto reader = Reader::open(disk, listing->complete[0].path);
  if (!reader.ok() || load(*reader).value_or(Content{}) != new_content()) return "restart: other content";
  return "";
}

/// The first fault, over all operations before which the power may go, and all disks that may be found;
/// empty: there is none.
std::string first_fault(const Scenario& scenario) {
  bool has_crashed = true;
  std::string fault;
  for (int crash = scenario.first_crash; has_crashed && fault.empty(); crash += scenario.crash_step) {
    SimulatedDisk disk = scenario.has_old ? disk_with_old_checkpoint() : SimulatedDisk();
    disk.ignore_syncs_of(scenario.without_syncs_of);
    int operations = 0;
    std::string place = "the end";
    has_crashed = false;
    disk.intercept([&](Operation operation, const std::string& path) {
      if (operations++ < crash) return absl::OkStatus();
      if (!std::exchange(has_crashed, true))
        place = fmt::format("operation {} ({}) on {}", crash, static_cast<int>(operation), path);
      return absl::UnavailableError("the power is off");
    });
    Folder folder(disk, "run/ckpts");
    bool committed = false;
    const absl::Status status = scenario.run(disk, folder, committed);
    if (!has_crashed && !status.ok()) return status.ToString();
    disk.for_each_survivor([&](SimulatedDisk& survivor) {
      fault = fault_of(survivor, scenario, committed);
      if (fault.empty()) fault = fault_after_restart(survivor, scenario.new_clock);
      return fault.empty();
    });
    if (!fault.empty()) fault = fmt::format("before {}: {}", place, fault);
  }
  return fault;
}

absl::Status write_next(SimulatedDisk& disk, Folder& folder, bool& committed) {
  return write_new(disk, folder, 20, committed);
}

TEST(CrashTest, TheFirstCheckpoint) {
  EXPECT_EQ(first_fault({.has_old = false, .run = write_next}), "");
}

TEST(CrashTest, TheNextCheckpoint) {
  EXPECT_EQ(first_fault({.run = write_next}), "");
}

TEST(CrashTest, AnotherCheckpointOfTheSameClock) {
  const auto run = [](SimulatedDisk& disk, Folder& folder, bool& committed) {
    return write_new(disk, folder, kOldClock, committed);
  };
  EXPECT_EQ(first_fault({.new_clock = kOldClock, .run = run}), "");
}

TEST(CrashTest, KeepingOne) {
  const auto run = [](SimulatedDisk& disk, Folder& folder, bool& committed) {
    RETURN_IF_ERROR(write_next(disk, folder, committed));
    return folder.keep(1);
  };
  EXPECT_EQ(first_fault({.run = run}), "");
}

TEST(CrashTest, AfterAnAttemptThatWasGivenUp) {
  const auto run = [](SimulatedDisk& disk, Folder& folder, bool& committed) {
    const auto path = folder.begin(20);
    if (!path.ok()) return path.status();
    const auto parts = write_parts(disk, *path, 20, old_content());
    if (!parts.ok()) return parts.status();
    RETURN_IF_ERROR(folder.discard(20));
    return write_next(disk, folder, committed);
  };
  EXPECT_EQ(first_fault({.run = run}), "");
}

// --- orders that are wrong: the checks above must find them

#ifndef VERBENA_SANITIZED  // it tests the checks above, and a sanitizer sees nothing new in it
TEST(CrashTest, FindsEachSyncThatIsMissing) {
  // Only what is done when the manifest has been written can make a checkpoint of half of them.
  Scenario scenario{.run = write_next, .first_crash = 60, .crash_step = 1};
  for (const char* const path : {"run/ckpts/ckpt-20.tmp/server-0", "run/ckpts/ckpt-20.tmp/server-1.1",
                                 "run/ckpts/ckpt-20.tmp/worker-0", "run/ckpts/ckpt-20.tmp/manifest.json.tmp",
                                 "run/ckpts/ckpt-20.tmp", "run/ckpts"}) {
    scenario.without_syncs_of = path;
    EXPECT_NE(first_fault(scenario), "") << path;
  }
  scenario.has_old = false;
  for (const char* const path : {".", "run"}) {
    scenario.without_syncs_of = path;
    EXPECT_NE(first_fault(scenario), "") << path;
  }
}
#endif

/// As Folder::commit(), in an order that the caller gives.
absl::Status put_manifest(SimulatedDisk& disk, const Manifest& manifest) {
  const auto text = encode(manifest);
  if (!text.ok()) return text.status();
  const auto file = disk.create("run/ckpts/ckpt-20.tmp/manifest.json");
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR((*file)->append(std::as_bytes(std::span(*text))));
  RETURN_IF_ERROR((*file)->sync());
  return disk.sync_folder("run/ckpts/ckpt-20.tmp");
}

absl::Status rename_new(SimulatedDisk& disk) {
  RETURN_IF_ERROR(disk.rename("run/ckpts/ckpt-20.tmp", "run/ckpts/ckpt-20"));
  return disk.sync_folder("run/ckpts");
}

/// What the parts will be, as writing them says on another disk.
Manifest manifest_to_come() {
  SimulatedDisk disk;
  disk.put_folder("elsewhere");
  return manifest_of(20, write_parts(disk, "elsewhere", 20, new_content()).value());
}

TEST(CrashTest, FindsARenameBeforeTheLastSync) {
  const auto run = [](SimulatedDisk& disk, Folder& folder, bool& committed) {
    const auto path = folder.begin(20);
    if (!path.ok()) return path.status();
    const auto file = disk.create(*path + "/manifest.json");
    if (!file.ok()) return file.status();
    const auto parts = write_parts(disk, *path, 20, new_content());
    if (!parts.ok()) return parts.status();
    const auto text = encode(manifest_of(20, *parts));
    RETURN_IF_ERROR((*file)->append(std::as_bytes(std::span(*text))));
    RETURN_IF_ERROR(rename_new(disk));
    RETURN_IF_ERROR((*file)->sync());
    committed = true;
    return absl::OkStatus();
  };
  EXPECT_THAT(first_fault({.run = run, .first_crash = 40, .crash_step = 1}),
              HasSubstr("damaged: run/ckpts/ckpt-20/manifest.json"));
}

TEST(CrashTest, FindsAManifestThatIsFirst) {
  const auto run = [](SimulatedDisk& disk, Folder& folder, bool& committed) {
    const auto path = folder.begin(20);
    if (!path.ok()) return path.status();
    RETURN_IF_ERROR(put_manifest(disk, manifest_to_come()));
    RETURN_IF_ERROR(rename_new(disk));
    const auto parts = write_parts(disk, "run/ckpts/ckpt-20", 20, new_content());
    committed = parts.ok();
    return parts.status();
  };
  EXPECT_THAT(first_fault({.run = run, .crash_step = 1}), HasSubstr("damaged: run/ckpts/ckpt-20/server-0"));
}

// --- operations that fail, and a job that goes on

/// Runs `run` once for each operation that it has, which fails with `error`, alone or with all that follow
/// it.
void fail_each(int error, bool for_good,
               const std::function<void(SimulatedDisk&, Folder&, const std::string& failed)>& run) {
  bool has_failed = true;
  for (int chosen = 0; has_failed; ++chosen) {
    SimulatedDisk disk = disk_with_old_checkpoint();
    int operations = 0;
    std::string failed;
    has_failed = false;
    disk.intercept([&](Operation operation, const std::string& path) {
      const bool needs_room = operation != Operation::kRemoveFile && operation != Operation::kRemoveFolder;
      const int number = operations++;
      if (for_good ? number < chosen || !needs_room : number != chosen) return absl::OkStatus();
      if (!std::exchange(has_failed, true)) failed = path;
      return absl::ErrnoToStatus(error, path + ": cannot do it");
    });
    Folder folder(disk, "run/ckpts");
    SCOPED_TRACE(fmt::format("operation {} on {}", chosen, failed));
    run(disk, folder, failed);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(FailingDiskTest, AnErrorSaysWhereAndLeavesTheOldCheckpoint) {
  int errors = 0;
  fail_each(EIO, false, [&](SimulatedDisk& disk, Folder& folder, const std::string& failed) {
    const absl::Status written = write_checkpoint(disk, folder, 20, new_content());
    if (!written.ok()) {
      ++errors;
      EXPECT_THAT(std::string(written.message()),
                  ::testing::AllOf(HasSubstr(failed), HasSubstr("Input/output error")));
    }
    // Also if the power goes now.
    disk.for_each_survivor([&](SimulatedDisk& survivor) {
      EXPECT_EQ(fault_of(survivor, {}, written.ok()), "");
      return !HasFailure();
    });
    disk.intercept(nullptr);
    EXPECT_EQ(fault_of(disk, {}, written.ok()), "");
    EXPECT_EQ(fault_after_restart(disk, 20), "") << "it must not be a part's file whose sync has failed";
  });
  EXPECT_GT(errors, 20);
}

TEST(FailingDiskTest, AnotherCheckpointOfTheSameClockLeavesOneOfThem) {
  fail_each(EIO, false, [&](SimulatedDisk& disk, Folder& folder, const std::string& /*failed*/) {
    const absl::Status written = write_checkpoint(disk, folder, kOldClock, new_content());
    disk.for_each_survivor([&](SimulatedDisk& survivor) {
      EXPECT_EQ(fault_of(survivor, {.new_clock = kOldClock}, written.ok()), "");
      return !HasFailure();
    });
    disk.intercept(nullptr);
    EXPECT_EQ(fault_after_restart(disk, kOldClock), "");
  });
}

/// What was made before the operation failed may not be on the disk, and is not made again.
TEST(FailingDiskTest, AnotherAttemptBringsToTheDiskWhatTheFirstHasMade) {
  bool has_failed = true;
  for (int chosen = 0; has_failed && !::testing::Test::HasFailure(); ++chosen) {
    SimulatedDisk disk;
    int operations = 0;
    disk.intercept([&](Operation /*operation*/, const std::string& path) {
      return operations++ == chosen ? absl::ErrnoToStatus(EIO, path) : absl::OkStatus();
    });
    Folder folder(disk, "run/ckpts");
    SCOPED_TRACE(fmt::format("operation {}", chosen));
    has_failed = !write_checkpoint(disk, folder, 10, old_content()).ok();
    disk.intercept(nullptr);
    EXPECT_EQ(write_checkpoint(disk, folder, 20, new_content()), absl::OkStatus());
    disk.for_each_survivor([&](SimulatedDisk& survivor) {
      EXPECT_EQ(fault_of(survivor, {}, /*committed=*/true), "");
      return !HasFailure();
    });
  }
}

TEST(FailingDiskTest, AFullDiskLeavesTheOldCheckpointAndIsFreedAgain) {
  fail_each(ENOSPC, true, [&](SimulatedDisk& disk, Folder& folder, const std::string& failed) {
    const absl::Status written = write_checkpoint(disk, folder, 20, new_content());
    EXPECT_EQ(written.ok(), failed.empty());
    if (written.ok()) return;
    EXPECT_EQ(written.code(), absl::StatusCode::kResourceExhausted) << written;
    EXPECT_THAT(std::string(written.message()), HasSubstr("No space left on device"));
    EXPECT_EQ(fault_of(disk, {}, false), "");
    disk.intercept(nullptr);
    EXPECT_EQ(folder.discard(20), absl::OkStatus());
    EXPECT_THAT(folder.list()->unfinished, IsEmpty());
    EXPECT_EQ(fault_of(disk, {}, false), "");
  });
}

}  // namespace
}  // namespace verbena::checkpoint
