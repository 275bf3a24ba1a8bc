#include "job/shared_word.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace verbena::job {
namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint64_t));

}  // namespace

absl::StatusOr<SharedWord> SharedWord::make() {
  base::FileDescriptor descriptor(::memfd_create("verbena-word", MFD_CLOEXEC));
  if (descriptor.valid() && ::ftruncate(descriptor.get(), sizeof(Word)) == 0)
    return map(std::move(descriptor));
  const int error = errno;
  return absl::ResourceExhaustedError(
      fmt::format("cannot make memory that processes share: {}", std::strerror(error)));
}

absl::StatusOr<SharedWord> SharedWord::map(int descriptor) {
  return map(base::FileDescriptor(descriptor));
}

absl::StatusOr<SharedWord> SharedWord::map(base::FileDescriptor descriptor) {
  struct stat file = {};
  if (::fstat(descriptor.get(), &file) != 0 || file.st_size != sizeof(Word))
    return absl::InvalidArgumentError("not the memory that processes share");
  void* const place = ::mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (place == MAP_FAILED) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        fmt::format("cannot map the memory that processes share: {}", std::strerror(error)));
  }
  return SharedWord(std::move(descriptor), static_cast<Word*>(place));
}

SharedWord::SharedWord(SharedWord&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), word_(std::exchange(other.word_, nullptr)) {}

SharedWord::~SharedWord() {
  if (word_ != nullptr) ::munmap(word_, sizeof(Word));
}

}  // namespace verbena::job
