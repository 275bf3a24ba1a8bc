// A copy of memory that changes meanwhile: each word must be read and written whole.
#include "transport/shm/transfer.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

namespace verbena::transport::shm {
namespace {

struct Copy {
  std::size_t to = 0;  ///< index into Shared's target; `from`: into its source
  std::size_t from = 0;
  std::size_t count = 0;
  std::size_t whole_bytes = 0;  ///< aligned words of this size must be copied whole
};

/// Several alignments, and every length that the C library's copies have a special case for. Not the longest
/// ones, which some processors copy by a single string instruction: a debugger cannot stop inside it.
std::vector<Copy> copies() {
  std::vector<Copy> all;
  for (Copy copy : {Copy{0, 0, 0, 8}, {3, 11, 0, 8}, {5, 5, 0, 8}, {4, 0, 0, 4}, {2, 6, 0, 4}}) {
    for (copy.count = 1; copy.count < 200; ++copy.count) all.push_back(copy);
    for (const std::size_t count : {255U, 256U, 257U, 511U, 520U, 777U}) {
      copy.count = count;
      all.push_back(copy);
    }
  }
  return all;
}

/// Memory that this process and the one that copies share.
struct Shared {
  static constexpr std::size_t kBytes = 1024;
  alignas(64) std::array<std::byte, kBytes> source;
  alignas(64) std::array<std::byte, kBytes> target;
  std::atomic<std::size_t> begun;  ///< how many copies have begun
  std::atomic<std::size_t> ended;
  std::atomic<std::size_t> seen;  ///< the last value of `begun` that the observer has seen
};

constexpr int kMayNotBeTraced = 77;

[[noreturn]] void copy_all(Shared& shared) {
  const std::vector<Copy> all = copies();
  transfer(shared.target.data(), shared.source.data(), 100);  // binds the C library's function now, not later
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kMayNotBeTraced);
  ::raise(SIGSTOP);
  for (const Copy& copy : all) {
    ++shared.begun;
    while (shared.seen != shared.begun) continue;
    transfer(shared.target.data() + copy.to, shared.source.data() + copy.from, copy.count);
    ++shared.ended;
  }
  ::_exit(0);
}

/// How many of the copied words are a mixture of two versions. All bytes of a version are the same.
std::size_t torn_words(const Shared& shared, const Copy& copy) {
  std::size_t torn = 0;
  const std::size_t first = (copy.to + copy.whole_bytes - 1) / copy.whole_bytes * copy.whole_bytes;
  for (std::size_t word = first; word + copy.whole_bytes <= copy.to + copy.count; word += copy.whole_bytes) {
    const std::byte* const bytes = shared.target.data() + word;
    torn += std::memcmp(bytes, bytes + 1, copy.whole_bytes - 1) != 0;
  }
  return torn;
}

/// After each instruction of the copy, the source is changed and the target is checked: a word that was read
/// or written by more than one instruction is a mixture of two versions.
TEST(Transfer, EachWordIsReadAtOnceAndWrittenAtOnce) {
#ifdef VERBENA_SANITIZED
  GTEST_SKIP() << "sanitizers replace the functions that copy";
#endif
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& shared = *new (memory) Shared{};
  const pid_t copier = ::fork();
  if (copier == 0) copy_all(shared);
  int status = 0;
  ASSERT_EQ(::waitpid(copier, &status, 0), copier);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kMayNotBeTraced) {
    GTEST_SKIP() << "this process may not trace another (ptrace)";
  }
  const std::vector<Copy> all = copies();
  int version = 0;
  std::size_t instructions = 0;
  std::size_t torn = 0;
  while (WIFSTOPPED(status) && torn == 0) {
    const std::size_t number = shared.begun;
    if (shared.seen != number) {
      shared.target.fill(std::byte{0});
      shared.seen = number;
    }
    if (number != 0 && shared.ended != number) ++instructions;
    // Also when the copy has ended, which is how the effect of its last instruction is seen.
    if (number != 0) {
      torn = torn_words(shared, all[number - 1]);
      EXPECT_EQ(torn, 0U) << "by a copy of " << all[number - 1].count << " bytes from place "
                          << all[number - 1].from << " to place " << all[number - 1].to;
    }
    version = version % 255 + 1;
    std::memset(shared.source.data(), version, Shared::kBytes);
    if (::ptrace(PTRACE_SINGLESTEP, copier, nullptr, nullptr) != 0) break;
    ASSERT_EQ(::waitpid(copier, &status, 0), copier);
  }
  if (torn != 0) {
    ::kill(copier, SIGKILL);
    ::waitpid(copier, &status, 0);
  } else {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(shared.ended, all.size());
    EXPECT_GT(instructions, 10 * all.size()) << "the copies were not observed instruction by instruction";
  }
  ::munmap(memory, sizeof(Shared));
}

/// For the thread sanitizer: a copy must not be a data race with a writer of whole words.
TEST(Transfer, MayRaceWithAWriter) {
  constexpr std::size_t kWords = 16;
  alignas(64) std::array<std::uint64_t, kWords> shared{};
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (std::uint64_t round = 0; !stop; ++round) {
      for (std::uint64_t& word : shared) __atomic_store_n(&word, round, __ATOMIC_RELAXED);
    }
  });
  alignas(64) std::array<std::uint64_t, kWords> copy{};
  for (std::size_t i = 0; i < 20'000; ++i) {
    transfer(reinterpret_cast<std::byte*>(copy.data()), reinterpret_cast<const std::byte*>(shared.data()),
             65 + i % 63);
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace verbena::transport::shm
