// Checkpoints by somebody who can compute checksums, and is careless: the targets do the checking.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/fuzz/mutator.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::fuzz {
namespace {

using verbena::testing::GuardedMemory;
using verbena::testing::Mutator;

constexpr int kCheckpointRounds = verbena::testing::rounds(8'000);

std::vector<std::string> kept_inputs(const std::string& kind) {
  std::vector<std::string> inputs;
  const auto folder = std::filesystem::path(VERBENA_FUZZ_CORPORA) / "files" / kind;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    inputs.push_back(verbena::testing::contents(file.path()));
  std::sort(inputs.begin(), inputs.end());  // folders have no order
  return inputs;
}

std::vector<std::string> pieces() {
  std::vector<std::string> pieces = verbena::testing::bytes_of_each<std::uint64_t>(
      {0, 1, 96, UINT32_MAX, std::uint64_t{1} << 40U, UINT64_MAX});
  for (const char* const text : {"\"rows\"", "\"scattered\"", "\"removed\"", "\"blob\"", "\"since\"", ":0,",
                                 ":1,", ":18446744073709551615,", "null", "[", "{", "},{", "-1"})
    pieces.emplace_back(text);
  return pieces;
}

TEST(CheckpointFuzz, ManifestsAndParts) {
  Mutator mutator(1, kept_inputs("checkpoint-manifest"), pieces());
  GuardedMemory memory;
  for (int round = 0; round < kCheckpointRounds; ++round) checkpoint_manifest(memory.put(mutator.next()));
}

TEST(CheckpointFuzz, DataFiles) {
  Mutator mutator(2, kept_inputs("checkpoint"), pieces());
  GuardedMemory memory;
  int whole = 0;
  for (int round = 0; round < kCheckpointRounds; ++round)
    whole += checkpoint_reads_well(memory.put(mutator.next())) ? 1 : 0;
  EXPECT_GT(whole, kCheckpointRounds / 50);
  EXPECT_LT(whole, kCheckpointRounds);
}

}  // namespace
}  // namespace verbena::fuzz
