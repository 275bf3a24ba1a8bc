// Training while checkpoints are written, on a disk that fails or in processes that die: what is left, and
// what comes of it. Each call on the disk is such a point, in the process that has most of them, worker 0,
// and in a server.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/saved_training.hpp"

namespace verbena::process_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What comes of a run in which nothing fails.
struct Undisturbed {
  std::string model;
  std::vector<DiskCall> calls;
  std::vector<std::uint64_t> clocks;  ///< of its checkpoints, the oldest first
};

Undisturbed run_undisturbed(const SavedTraining& training, int servers) {
  const Ended ended = training.run(servers);
  EXPECT_EQ(ended.status, 0) << ended.err;
  Undisturbed found{.model = training.model(), .calls = training.calls(), .clocks = {}};
  EXPECT_NE(found.model, "");
  for (const DiskCall& call : found.calls) {
    EXPECT_EQ(call.result == "ok" || (call.kind == "unlink" && call.result == "ENOENT") ||
                  (call.kind == "mkdir" && call.result == "EEXIST"),
              true)
        << call.process << ' ' << call.kind << ' ' << call.path << ' ' << call.result;
    if (call.kind == "rename" && clock_of(call.path) != 0) found.clocks.push_back(clock_of(call.path));
  }
  return found;
}

/// A process that writes.
struct Writer {
  std::string name;
  int servers;  ///< of its job; no more than are needed, since each costs time
};
std::ostream& operator<<(std::ostream& out, const Writer& writer) {
  return out << writer.name;
}
const Writer kWorker = {"worker-0", 1};
const Writer kServer = {"server-1", 2};

std::vector<DiskCall> calls_of(const std::string& process, std::vector<DiskCall> calls) {
  std::erase_if(calls, [&](const DiskCall& call) { return call.process != process; });
  EXPECT_GE(calls.size(), 16U) << "the calls of " << process << " were not seen";
  return calls;
}

// --- processes that die

bool decides(const DiskCall& call) {
  return call.kind == "fsync" || call.kind == "rename";
}

class KilledWriterTest : public ::testing::TestWithParam<Writer> {
 protected:
  /// Kills the process there, and goes on with what is left.
  void kill(const std::string& when, const DiskCall& call) const {
    const std::string fault = fmt::format("{} {} {}", when, call.kind, call.number);
    SCOPED_TRACE(fmt::format("{}: {} of {}", call.process, fault, call.path));
    training_.clear();
    const Ended killed = training_.run(GetParam().servers, {call.process, fault});
    EXPECT_EQ(killed.status, 1) << killed.err;
    EXPECT_THAT(killed.err, HasSubstr("was killed by SIGKILL"));

    const std::vector<std::uint64_t> sworn = promised(training_.calls());
    const SavedCheckpoints left = training_.look();
    EXPECT_THAT(left.damaged, IsEmpty());
    EXPECT_GE(left.whole.size(), sworn.size());
    if (!sworn.empty()) {
      EXPECT_GE(left.newest(), sworn.front());
    }

    training_.forget();
    const Ended resumed = training_.run(1);
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err,
                HasSubstr(left.whole.empty() ? "there is no checkpoint in"
                                             : "goes on from " + training_.path_of(left.newest()) + ","));
    EXPECT_EQ(training_.model(), undisturbed_.model);
    const SavedCheckpoints at_end = training_.look();
    EXPECT_THAT(at_end.damaged, IsEmpty());
    EXPECT_EQ(at_end.newest(), undisturbed_.clocks.back());
  }

  const SavedTraining training_{2, 1};
  const Undisturbed undisturbed_ = run_undisturbed(training_, GetParam().servers);
};

TEST_P(KilledWriterTest, LeavesWhatWasPromisedAndTheRunGoesOn) {
  const std::vector<DiskCall> calls = calls_of(GetParam().name, undisturbed_.calls);
  for (std::size_t i = 0; i < calls.size() && !HasFailure(); ++i) {
    if (!decides(calls[i])) continue;
    kill("kill-before", calls[i]);
    // If the next call is another such point, to die before it leaves the same.
    if (i + 1 == calls.size() || !decides(calls[i + 1])) kill("kill-after", calls[i]);
  }
  EXPECT_THAT(training_.left_behind(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Worker, KilledWriterTest, ::testing::Values(kWorker));
INSTANTIATE_TEST_SUITE_P(Server, KilledWriterTest, ::testing::Values(kServer));

class RestartedWriterTest : public ::testing::TestWithParam<Writer> {
 protected:
  [[nodiscard]] Ended run_with(const std::string& fault, const std::string& restarts) const {
    training_.clear();
    return training_.run(GetParam().servers, {GetParam().name, fault}, {"--restarts", restarts});
  }

  const SavedTraining training_{3, 1};
  const Undisturbed undisturbed_ = run_undisturbed(training_, GetParam().servers);
};

/// Each process that comes after one that has died dies at the same call of its own. So it comes one
/// checkpoint further each time.
TEST_P(RestartedWriterTest, GoesOnByItself) {
  ASSERT_EQ(undisturbed_.clocks.size(), 3U);
  const std::string second = fmt::format("/ckpt-{}", undisturbed_.clocks[1]);
  int last_sync = 0;
  for (const DiskCall& call : calls_of(GetParam().name, undisturbed_.calls)) {
    if (call.kind == "fsync" && call.path.find(second) != std::string::npos) last_sync = call.number;
  }
  ASSERT_NE(last_sync, 0);
  const Ended ended = run_with(fmt::format("kill-before fsync {}", last_sync), "9");
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(training_.model(), undisturbed_.model);
  const std::string at = fmt::format(": the training goes back to iteration 1 ({}), restart 1 of 9\n",
                                     training_.path_of(undisturbed_.clocks[0]));
  EXPECT_THAT(ended.err, HasSubstr(at));
  EXPECT_THAT(ended.err,
              HasSubstr(fmt::format(": the training goes back to iteration 2 ({}), restart 2 of 9\n",
                                    training_.path_of(undisturbed_.clocks[1]))));
  const SavedCheckpoints left = training_.look();
  EXPECT_THAT(left.damaged, IsEmpty());
  EXPECT_EQ(left.newest(), undisturbed_.clocks.back());
  EXPECT_THAT(training_.left_behind(), IsEmpty());
}

TEST_P(RestartedWriterTest, EndsWhenItHasDiedTooOften) {
  const Ended ended = run_with("kill-before fsync 1", "2");
  EXPECT_EQ(ended.status, 1) << ended.err;
  std::string name = GetParam().name;
  std::replace(name.begin(), name.end(), '-', ' ');
  const std::string died = name + " \\(pid [0-9]+\\) was killed by SIGKILL[^\n]*";
  for (const char* const restart : {"1", "2"}) {
    EXPECT_THAT(ended.err, ContainsRegex(fmt::format(
                               "verbena: {}: the training goes back to its beginning, restart {} of 2\n",
                               died, restart)));
  }
  EXPECT_THAT(ended.err, ::testing::Not(HasSubstr("restart 3 of")));
  EXPECT_THAT(ended.err, ContainsRegex("verbena: error: " + died + "\n"));
  EXPECT_EQ(training_.model(), "");
  EXPECT_THAT(training_.left_behind(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Worker, RestartedWriterTest, ::testing::Values(kWorker));
INSTANTIATE_TEST_SUITE_P(Server, RestartedWriterTest, ::testing::Values(kServer));

// --- a disk that fails

/// How a call of this kind fails, and how users read it.
std::pair<std::string, std::string> error_of(const std::string& kind) {
  if (kind == "fsync" || kind == "unlink" || kind == "rmdir") return {"EIO", "Input/output error"};
  return {"ENOSPC", "No space left on device"};
}

/// Whether the checkpoints of all these clocks have got their names.
bool are_written(const std::vector<std::uint64_t>& clocks, const std::vector<DiskCall>& calls) {
  return std::all_of(clocks.begin(), clocks.end(), [&](std::uint64_t clock) {
    return std::any_of(calls.begin(), calls.end(), [&](const DiskCall& call) {
      return call.kind == "rename" && call.result == "ok" && clock_of(call.path) == clock;
    });
  });
}

class FailingCallTest : public ::testing::TestWithParam<Writer> {};

TEST_P(FailingCallTest, IsNamedAndTrainingGoesOn) {
  const SavedTraining training(2, 1);
  const Undisturbed undisturbed = run_undisturbed(training, GetParam().servers);
  ASSERT_EQ(undisturbed.clocks.size(), 2U);
  const std::uint64_t first = undisturbed.clocks[0];
  const std::uint64_t last = undisturbed.clocks[1];
  std::vector<DiskCall> before;
  for (const DiskCall& call : calls_of(GetParam().name, undisturbed.calls)) {
    // Worker 0 has ended the first checkpoint before it begins the last; a server's calls tell of which they
    // are.
    const bool is_of_last =
        !promised(before).empty() || call.path.find(fmt::format("ckpt-{}", last)) != std::string::npos;
    before.push_back(call);
    const auto [error, text] = error_of(call.kind);
    const std::string fault = fmt::format("fail {0} {1} {1} {2}", call.kind, call.number, error);
    SCOPED_TRACE(fmt::format("{}: {} of {}", call.process, fault, call.path));
    training.clear();
    const Ended ended = training.run(GetParam().servers, {call.process, fault});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(training.model(), undisturbed.model);
    // That an old one could not be removed is no news, since the next checkpoint tries again.
    if (!are_written(undisturbed.clocks, training.calls())) {
      EXPECT_THAT(ended.out + ended.err, HasSubstr(text));
    }
    const SavedCheckpoints left = training.look();
    EXPECT_THAT(left.damaged, IsEmpty());
    if (left.newest() != last) {
      EXPECT_EQ(left.newest(), is_of_last ? first : last);
    }
    ASSERT_FALSE(HasFailure()) << ended.out << ended.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Worker, FailingCallTest, ::testing::Values(kWorker));
INSTANTIATE_TEST_SUITE_P(Server, FailingCallTest, ::testing::Values(kServer));

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

TEST(FullDiskTest, LeavesTheOlderCheckpoint) {
  const SavedTraining training(3, 1);
  const Undisturbed undisturbed = run_undisturbed(training, 1);
  const std::uint64_t bytes = bytes_in(training.saved());
  for (const std::uint64_t halves : {0U, 1U, 3U, 4U}) {
    SCOPED_TRACE(fmt::format("room for {} halves of a checkpoint, of {} bytes", halves, bytes));
    training.clear();
    const Ended ended = training.run(1, {"any", fmt::format("full {}", bytes * halves / 2)});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(training.model(), undisturbed.model);
    const SavedCheckpoints left = training.look();
    EXPECT_THAT(left.damaged, IsEmpty());
    if (halves < 4) {
      EXPECT_THAT(ended.out + ended.err, HasSubstr("No space left on device"));
      // The second one would need room beside the first.
      EXPECT_EQ(left.newest(), halves < 2 ? 0 : undisturbed.clocks.front());
    }
    training.forget();
    const Ended resumed = training.run(1);
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    if (!left.whole.empty()) {
      EXPECT_THAT(resumed.err, HasSubstr("goes on from " + training.path_of(left.newest()) + ","));
    }
    EXPECT_EQ(training.model(), undisturbed.model);
    EXPECT_EQ(training.look().whole, std::vector{undisturbed.clocks.back()});
  }
}

}  // namespace
}  // namespace verbena::process_test
