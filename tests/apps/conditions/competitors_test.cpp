#include "apps/conditions/competitors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

cpu_set_t affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

bool equal(const cpu_set_t& a, const cpu_set_t& b) {
  return CPU_EQUAL(&a, &b);
}

std::uint32_t last_core() {
  const cpu_set_t set = affinity();
  std::uint32_t last = 0;
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) last = core;
  }
  return last;
}

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The contents of this /proc file of each competitor thread in this process.
std::vector<std::string> of_competitors(const char* file) {
  std::vector<std::string> all;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (contents(thread.path() / "comm") == "competitor\n") all.push_back(contents(thread.path() / file));
  }
  return all;
}

/// By the thread's "stat" file in /proc: whether it has used at least one clock tick of processor time.
bool has_run(const std::string& stat) {
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string other;
  for (int field = 3; field < 14; ++field) fields >> other;
  std::uint64_t ticks = 0;
  fields >> ticks;
  return ticks > 0;
}

/// Waits until the condition holds. The limit is long enough for any host.
bool comes(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

SlowRule load(std::optional<std::uint32_t> worker, std::uint32_t competitors,
              std::optional<std::uint32_t> core = {}) {
  return {.worker = worker, .competitors = competitors, .core = core};
}

TEST(CompetitorsTest, ShareTheWorkersCoreUntilItsEnd) {
  const cpu_set_t before = affinity();
  const std::uint32_t core = last_core();
  {
    const auto competitors = Competitors::start({load(1, 2, core)}, 1);
    ASSERT_TRUE(competitors.ok()) << competitors.status();
    EXPECT_EQ((*competitors)->count(), 2U);
    EXPECT_EQ((*competitors)->core(), core);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    EXPECT_TRUE(equal(affinity(), one));
    ASSERT_TRUE(comes([] { return of_competitors("comm").size() == 2; }));
    EXPECT_THAT(of_competitors("status"),
                Each(HasSubstr("\nCpus_allowed_list:\t" + std::to_string(core) + "\n")));
    EXPECT_TRUE(comes([] {
      const std::vector<std::string> all = of_competitors("stat");
      return all.size() == 2 && std::all_of(all.begin(), all.end(), has_run);
    }));
  }
  EXPECT_TRUE(comes([] { return of_competitors("comm").empty(); }));
  EXPECT_TRUE(equal(affinity(), before));
}

TEST(CompetitorsTest, OthersHaveNone) {
  const cpu_set_t before = affinity();
  const auto competitors = Competitors::start({load(1, 2), {.worker = 0, .factor = 2}}, 0);
  ASSERT_TRUE(competitors.ok()) << competitors.status();
  EXPECT_EQ((*competitors)->count(), 0U);
  EXPECT_TRUE(equal(affinity(), before));
  EXPECT_THAT(of_competitors("comm"), IsEmpty());
}

TEST(CompetitorsTest, OfSeveralRulesAreAddedUp) {
  const auto competitors = Competitors::start({load(std::nullopt, 1), load(0, 2, last_core())}, 0);
  ASSERT_TRUE(competitors.ok()) << competitors.status();
  EXPECT_EQ((*competitors)->count(), 3U);
  EXPECT_EQ((*competitors)->core(), last_core());
}

TEST(CompetitorsTest, WorkersTakeTurnsWithTheCores) {
  const cpu_set_t allowed = affinity();
  const auto cores = static_cast<std::uint32_t>(CPU_COUNT(&allowed));
  std::set<std::uint32_t> taken;
  for (std::uint32_t worker = 0; worker < cores; ++worker) {
    const auto competitors = Competitors::start({load(std::nullopt, 1)}, worker);
    ASSERT_TRUE(competitors.ok()) << competitors.status();
    taken.insert((*competitors)->core());
  }
  EXPECT_THAT(taken, SizeIs(cores));
  EXPECT_EQ((*Competitors::start({load(std::nullopt, 1)}, cores))->core(), *taken.begin());
}

TEST(CompetitorsTest, CoresThatCannotBeAreRefused) {
  const cpu_set_t before = affinity();
  for (const std::uint32_t core : {std::uint32_t{CPU_SETSIZE} - 1, UINT32_MAX}) {
    const absl::Status none = Competitors::start({load(1, 1, core)}, 1).status();
    EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(none.message()), AllOf(HasSubstr("core=" + std::to_string(core)),
                                                   HasSubstr("worker 1 may use these cores of its host: ")));
  }
  const absl::Status two = Competitors::start({load(1, 1, 0), load(std::nullopt, 1, 1)}, 1).status();
  EXPECT_EQ(two.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(two.message()), HasSubstr("worker 1 cannot be on both core 0 and core 1"));
  EXPECT_TRUE(equal(affinity(), before));
}

}  // namespace
}  // namespace verbena::apps
