// What fuzzers have found worth keeping (scripts/fuzz), tried again.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "tests/fuzz/mutator.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::fuzz {
namespace {

const std::filesystem::path kCorpora = VERBENA_FUZZ_CORPORA;

class CorpusFuzz : public ::testing::TestWithParam<Target> {};

TEST_P(CorpusFuzz, EachInputIsTriedAgain) {
  spdlog::set_level(spdlog::level::off);
  std::signal(SIGPIPE, SIG_IGN);  // as the program does
  verbena::testing::GuardedMemory memory;
  int tried = 0;
  for (const auto& file : std::filesystem::directory_iterator(kCorpora / GetParam().kind)) {
    const std::string bytes = verbena::testing::contents(file.path());
    SCOPED_TRACE(file.path());
    // For whom it ends the process: ctest shows it then only.
    std::fprintf(stderr, "%s\n", file.path().c_str());
    GetParam().attempt(memory.put(bytes));
    ++tried;
  }
  EXPECT_GT(tried, 0);
  GetParam().attempt({});
}

INSTANTIATE_TEST_SUITE_P(Kinds, CorpusFuzz, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const ::testing::TestParamInfo<Target>& target) {
                           std::string name(target.param.kind);
                           std::erase(name, '-');
                           return name;
                         });

/// A server that refuses everyone at once would pass all else.
TEST(CorporaFuzz, WholeJobsAreAmongTheServersInputs) {
  spdlog::set_level(spdlog::level::off);
  for (const char* const name : {"bsp", "essp", "a-bsp"}) {
    EXPECT_TRUE(server_finishes_well(verbena::testing::contents(kCorpora / "server" / name))) << name;
  }
}

TEST(CorporaFuzz, EachFolderHasItsTarget) {
  for (const auto& folder : std::filesystem::directory_iterator(kCorpora)) {
    EXPECT_NE(find_target(folder.path().filename().string()), nullptr) << folder.path();
  }
}

}  // namespace
}  // namespace verbena::fuzz
