// Damaged input, determined by a seed, and memory that ends where the input ends.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::testing {

/// How many rounds to run: fewer under sanitizers, which see more in each round and take several times as
/// long.
constexpr int rounds(int native) {
#ifdef VERBENA_SANITIZED
  return native / 8;
#else
  return native;
#endif
}

/// Damages valid input, a little each time, so that some of it is still accepted and much of it is refused
/// late.
class Mutator {
 public:
  /// `pieces` are what the format is sensitive to: separators, extreme numbers.
  Mutator(std::uint64_t seed, std::vector<std::string> originals, std::vector<std::string> pieces)
      : random_(seed), originals_(std::move(originals)), pieces_(std::move(pieces)) {}

  std::string next() {
    std::string bytes = original();
    for (std::uint64_t n = 1 + below(4); n > 0; --n) mutate(bytes);
    return bytes;
  }

  /// 0 … bound − 1
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

 private:
  [[nodiscard]] const std::string& original() { return originals_[below(originals_.size())]; }
  [[nodiscard]] char any() { return static_cast<char>(random_()); }

  void mutate(std::string& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    switch (below(8)) {
      case 0:
        bytes.replace(at, below(4), 1, any());
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 2:
        bytes.insert(at, below(16), any());
        break;
      case 3: {  // the end of another original
        const std::string& other = original();
        bytes.replace(at, std::string::npos, other, std::min(at, other.size()));
        break;
      }
      case 4:
        if (below(4) == 0) bytes.resize(at);
        break;
      default: {
        const std::string& piece = pieces_[below(pieces_.size())];
        bytes.replace(at, below(2) == 0 ? piece.size() : below(4), piece);
      }
    }
  }

  std::mt19937_64 random_;
  const std::vector<std::string> originals_;
  const std::vector<std::string> pieces_;
};

/// The bytes of each of `numbers`, in the processor's order.
template <class Number>
std::vector<std::string> bytes_of_each(const std::vector<Number>& numbers) {
  std::vector<std::string> all;
  for (const Number& number : numbers)
    all.emplace_back(reinterpret_cast<const char*>(&number), sizeof number);
  return all;
}

/// Memory that ends with the bytes that are put there: reading one more is a crash, in every build.
class GuardedMemory {
 public:
  GuardedMemory() {
    void* const memory =
        ::mmap(nullptr, kBytes + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory != MAP_FAILED);
    begin_ = static_cast<char*>(memory);
    ::mprotect(begin_ + kBytes, page_, PROT_NONE);
  }
  ~GuardedMemory() { ::munmap(begin_, kBytes + page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  /// Valid until the next call. REQUIRES: at most kBytes.
  std::string_view put(std::string_view bytes) {
    assert(bytes.size() <= kBytes);
    char* const place = begin_ + kBytes - bytes.size();
    std::memcpy(place, bytes.data(), bytes.size());
    return {place, bytes.size()};
  }

  static constexpr std::size_t kBytes = std::size_t{1} << 16;

 private:
  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  char* begin_ = nullptr;
};

}  // namespace verbena::testing
