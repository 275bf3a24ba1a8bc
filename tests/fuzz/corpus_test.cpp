// Tries again the inputs that fuzzers have found worth keeping (scripts/fuzz).
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "tests/fuzz/mutator.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::fuzz {
namespace {

const std::filesystem::path kCorpora = VERBENA_FUZZ_CORPORA;

void try_inputs(const std::filesystem::path& corpora, const Target& target) {
  spdlog::set_level(spdlog::level::off);
  std::signal(SIGPIPE, SIG_IGN);  // as verbena does
  verbena::testing::GuardedMemory memory;
  int tried = 0;
  for (const auto& file : std::filesystem::directory_iterator(corpora / target.kind)) {
    const std::string bytes = verbena::testing::contents(file.path());
    SCOPED_TRACE(file.path());
    // Names the input that ends the process. ctest shows this only if the test fails.
    std::fprintf(stderr, "%s\n", file.path().c_str());
    target.attempt(memory.put(bytes));
    ++tried;
  }
  EXPECT_GT(tried, 0);
  target.attempt({});
}

std::string test_name(const ::testing::TestParamInfo<Target>& target) {
  std::string name(target.param.kind);
  std::erase(name, '-');
  return name;
}

class FileCorpusFuzz : public ::testing::TestWithParam<Target> {};
TEST_P(FileCorpusFuzz, EachInputIsTriedAgain) {
  try_inputs(kCorpora / "files", GetParam());
}
INSTANTIATE_TEST_SUITE_P(Kinds, FileCorpusFuzz, ::testing::ValuesIn(file_targets()), test_name);

class PeerCorpusFuzz : public ::testing::TestWithParam<Target> {};
TEST_P(PeerCorpusFuzz, EachInputIsTriedAgain) {
  try_inputs(kCorpora / "peers", GetParam());
}
INSTANTIATE_TEST_SUITE_P(Kinds, PeerCorpusFuzz, ::testing::ValuesIn(peer_targets()), test_name);

/// A server that refuses everyone at once would pass all other tests.
TEST(CorporaFuzz, WholeJobsAreAmongTheServersInputs) {
  spdlog::set_level(spdlog::level::off);
  for (const char* const name : {"bsp", "essp", "a-bsp"}) {
    EXPECT_TRUE(server_finishes_well(verbena::testing::contents(kCorpora / "peers" / "server" / name)))
        << name;
  }
}

/// Likewise a reader of checkpoints.
TEST(CorporaFuzz, WholeCheckpointsAreAmongTheFiles) {
  for (const char* const name : {"empty-part", "plain", "zstd"}) {
    EXPECT_TRUE(checkpoint_reads_well(verbena::testing::contents(kCorpora / "files" / "checkpoint" / name)))
        << name;
  }
}

TEST(CorporaFuzz, EachFolderHasItsTarget) {
  for (const auto& [folder, targets] :
       {std::pair("files", file_targets()), std::pair("peers", peer_targets())}) {
    for (const auto& kind : std::filesystem::directory_iterator(kCorpora / folder)) {
      EXPECT_NE(find_target(targets, kind.path().filename().string()), nullptr) << kind.path();
    }
  }
}

}  // namespace
}  // namespace verbena::fuzz
