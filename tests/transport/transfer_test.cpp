// What a copy may show of memory that changes meanwhile.
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
  std::size_t to = 0;  ///< places in Shared's arrays
  std::size_t from = 0;
  std::size_t count = 0;
  std::size_t whole_bytes = 0;  ///< what is promised to be whole
};

/// Every place in a word, and every length that the C library's copies treat in their own way. Not the
/// longest ones, which some processors copy by one instruction for strings: inside it nobody can look.
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

/// Of this process and of the one that copies.
struct Shared {
  static constexpr std::size_t kBytes = 1024;
  alignas(64) std::array<std::byte, kBytes> source;
  alignas(64) std::array<std::byte, kBytes> target;
  std::atomic<std::size_t> begun;  ///< copies
  std::atomic<std::size_t> ended;
  std::atomic<std::size_t> seen;  ///< as begun, by the one that looks
};

constexpr int kMayNotBeTraced = 77;

[[noreturn]] void copy_all(Shared& shared) {
  const std::vector<Copy> all = copies();
  transfer(shared.target.data(), shared.source.data(), 100);  // finds the C library's function
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

/// Of the words that the copy covers, those that are of two versions; a version is the same byte everywhere.
std::size_t torn_words(const Shared& shared, const Copy& copy) {
  std::size_t torn = 0;
  const std::size_t first = (copy.to + copy.whole_bytes - 1) / copy.whole_bytes * copy.whole_bytes;
  for (std::size_t word = first; word + copy.whole_bytes <= copy.to + copy.count; word += copy.whole_bytes) {
    const std::byte* const bytes = shared.target.data() + word;
    torn += std::memcmp(bytes, bytes + 1, copy.whole_bytes - 1) != 0;
  }
  return torn;
}

/// The source changes after each instruction of the copy, and the target is looked at: a word that is read or
/// written by more than one instruction shows as one of two versions.
TEST(Transfer, EachWordIsReadAtOnceAndWrittenAtOnce) {
#ifdef VERBENA_SANITIZED
  GTEST_SKIP() << "the sanitizers' copies are not those of other builds";
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
    // Also in the stop after the end, which shows the copy's last instruction.
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
    EXPECT_GT(instructions, 10 * all.size()) << "it was looked at inside";
  }
  ::munmap(memory, sizeof(Shared));
}

/// The thread sanitizer's business: no race with a writer of whole words.
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
