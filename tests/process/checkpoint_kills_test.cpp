// Runs that are killed at any moment, and folders in which a bit has changed: a user who starts the same
// command again gets what a run without trouble would have given. What is chosen by chance is printed as a
// seed: VERBENA_TEST_SEED chooses the same again, as far as the moments are the same. VERBENA_TEST_KILLS: how
// often.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/chance.hpp"
#include "tests/process/saved_training.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kIterations = 5;
constexpr int kKept = 2;

/// Where a run that goes on says that it does; 0: at its beginning.
std::uint64_t begun_from(const Ended& ended) {
  std::smatch found;
  static const std::regex kLine("goes on from (.*), after iteration");
  return std::regex_search(ended.err, found, kLine) ? clock_of(found[1].str()) : 0;
}

/// Changes one bit of one file. Returns which.
std::string flip_bit(const std::string& checkpoint, Chance& chance) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const std::filesystem::path& file = files[chance.below(files.size())];
  std::string bytes = verbena::testing::contents(file);
  const std::uint64_t place = chance.below(bytes.size());
  const std::uint64_t bit = chance.below(8);
  bytes[place] = static_cast<char>(static_cast<unsigned char>(bytes[place]) ^ (1U << bit));
  verbena::testing::write_file(file, bytes);
  return fmt::format("bit {} of byte {} of {}", bit, place, file.filename().string());
}

/// A process of a job.
struct Victim {
  std::string name;
  pid_t pid = -1;
};

/// One of those that are running in this moment.
Victim choose(const Program& job, Chance& chance) {
  std::vector<Victim> all = {{"launcher", job.pid()}};
  for (const char* const kind : {"server", "worker"}) {
    for (const pid_t pid : job.children(kind)) all.push_back({kind, pid});
  }
  return all[chance.below(all.size())];
}

/// What has come of all runs.
struct Figures {
  int runs = 0;
  int trainings = 0;
  int changed = 0;                     ///< checkpoints
  std::map<std::string, int> kills;    ///< by who was killed
  int after_the_end = 0;               ///< of them, those that came too late
  std::map<std::uint64_t, int> begun;  ///< runs by the clock of the checkpoint that they go on from; 0: none

  void print(double seconds) const {
    std::string killed;
    for (const auto& [name, count] : kills) killed += fmt::format("{} {} times, ", name, count);
    std::string from;
    for (const auto& [clock, count] : begun) from += fmt::format(", {} from clock {}", count, clock);
    fmt::print(
        "killed: {}{} of them too late; {} checkpoints with a changed bit; {} trainings of {} runs{}; {:.1f} "
        "s\n",
        killed, after_the_end, changed, trainings, runs, from, seconds);
  }
};

class KilledRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
    const Ended ended = training_.run(2);
    ASSERT_EQ(ended.status, 0) << ended.err;
    model_ = training_.model();
    ASSERT_NE(model_, "");
    calls_ = training_.calls().size();
    last_clock_ = training_.look().newest();
    ASSERT_NE(last_clock_, 0U);
    seconds_ = ended.seconds;
  }

  [[nodiscard]] int servers() { return 1 + static_cast<int>(chance_.below(3)); }

  /// Lets the job come to some moment, mostly while a checkpoint is written, which takes less time than all
  /// else. Whatever the moment is, all must be well.
  void wait_some_time(const Program& job, std::uint64_t calls_left) {
    if (calls_left == 0 || chance_.below(4) == 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(seconds_)));
      return;
    }
    const std::size_t before = training_.calls().size();
    const std::uint64_t calls = chance_.below(calls_left + 1);
    while (alive(job.pid()) && training_.calls().size() < before + calls)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(0.005)));
  }

  /// Kills one of its processes, and waits until all have gone.
  Ended kill_one(Program& job) {
    std::vector<pid_t> all = job.children("server");
    for (const pid_t pid : job.children("worker")) all.push_back(pid);
    const Victim victim = choose(job, chance_);
    ::kill(victim.pid, SIGKILL);
    Ended ended = job.wait();
    ++figures_.kills[victim.name];
    if (ended.status == 0) ++figures_.after_the_end;
    EXPECT_THAT(ended.status, ::testing::AnyOf(0, 1, 128 + SIGKILL)) << ended.err;
    if (ended.status == 1) {
      EXPECT_THAT(ended.err, HasSubstr("was killed by SIGKILL"));
    }
    EXPECT_TRUE(gone(all, 60)) << "processes outlive their launcher";
    return ended;
  }

  /// One training, to its end, with at most so many kills. Returns how many there were.
  std::uint64_t train(std::uint64_t most_kills) {
    training_.clear();
    ++figures_.trainings;
    std::uint64_t kills = 0;
    SavedCheckpoints left;
    for (bool has_ended = false; !has_ended;) {
      const bool is_killed = kills < most_kills;
      const std::unique_ptr<Program> job = training_.start(servers());
      if (is_killed) wait_some_time(*job, calls_ - calls_ * left.newest() / last_clock_);
      const Ended ended = is_killed ? kill_one(*job) : job->wait();
      ++figures_.runs;
      kills += is_killed ? 1 : 0;
      has_ended = ended.status == 0;
      EXPECT_TRUE(is_killed || has_ended) << ended.err;
      expect_begins_as(left, ended);
      const std::uint64_t newest = left.newest();
      const bool was_damaged = !left.damaged.empty();
      left = training_.look();
      EXPECT_GE(left.newest(), newest);
      if (!was_damaged) {
        EXPECT_THAT(left.damaged, IsEmpty());
      }
      if (HasFailure()) return kills;
      if (!has_ended && left.whole.size() > 1 && left.damaged.empty() && chance_.below(4) == 0) {
        change_newest(left);
        ++figures_.changed;
      }
    }
    EXPECT_EQ(training_.model(), model_);
    return kills;
  }

  /// As --resume must, when this was left.
  void expect_begins_as(const SavedCheckpoints& left, const Ended& ended) {
    const std::uint64_t begun = begun_from(ended);
    // A launcher that was killed at once has said nothing.
    if (begun == 0 && ended.err.find("there is no checkpoint in") == std::string::npos) return;
    EXPECT_EQ(begun, left.newest()) << ended.err;
    for (const std::string& damaged : left.damaged) {
      const std::string name = damaged.substr(0, damaged.find(':'));
      EXPECT_THAT(ended.err, HasSubstr("--resume: " + name + ": ")) << damaged;
    }
    ++figures_.begun[begun];
  }

  /// So that `left`, which had it, has one that is damaged.
  void change_newest(SavedCheckpoints& left) {
    const std::string bit = flip_bit(training_.path_of(left.newest()), chance_);
    SCOPED_TRACE(bit);
    SavedCheckpoints changed = training_.look();
    EXPECT_EQ(changed.damaged.size(), 1U);
    EXPECT_EQ(changed.whole, std::vector(left.whole.begin() + 1, left.whole.end()));
    left = std::move(changed);
  }

  Chance chance_;
  SavedTraining training_{kIterations, kKept};
  std::string model_;
  // Of a run without trouble. The next ones may be faster or slower.
  double seconds_ = 0;
  std::uint64_t calls_ = 0;  ///< on the disk
  std::uint64_t last_clock_ = 0;
  Figures figures_;
};

TEST_F(KilledRunTest, GoesOnToTheSameModel) {
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t left = number_from("VERBENA_TEST_KILLS", 15);
  while (left > 0 && !HasFailure()) left -= train(std::min<std::uint64_t>(left, 20));
  EXPECT_THAT(training_.left_behind(), IsEmpty());
  figures_.print(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

TEST_F(KilledRunTest, AChangedBitIsNamedAndTheOlderCheckpointLoaded) {
  const SavedCheckpoints all = training_.look();
  ASSERT_EQ(all.whole.size(), 2U);
  std::filesystem::copy(training_.saved(), training_.saved() + ".copy",
                        std::filesystem::copy_options::recursive);
  const std::uint64_t times = std::max<std::uint64_t>(number_from("VERBENA_TEST_KILLS", 0) / 4, 5);
  for (std::uint64_t i = 0; i < times && !HasFailure(); ++i) {
    training_.forget();
    std::filesystem::remove_all(training_.saved());
    std::filesystem::copy(training_.saved() + ".copy", training_.saved(),
                          std::filesystem::copy_options::recursive);
    SavedCheckpoints left = all;
    change_newest(left);
    const Ended ended = training_.run(servers());
    EXPECT_EQ(ended.status, 0) << ended.err;
    expect_begins_as(left, ended);
    EXPECT_EQ(begun_from(ended), all.whole[1]) << ended.err;
    EXPECT_EQ(training_.model(), model_);
    // Whatever has a first byte that is not ours is not ours to replace.
    const bool stays = ended.out.find("is no file of a checkpoint") != std::string::npos;
    if (!stays) {
      EXPECT_EQ(training_.look().whole, all.whole);
    }
  }
}

}  // namespace
}  // namespace verbena::process_test
