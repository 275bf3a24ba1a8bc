#include "transport/verbs/in_place.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "transport/verbs/errors.hpp"

namespace verbena::transport::verbs {

namespace {

constexpr std::uint64_t kLabelMagic = 0x4543414c504e4956;  // "VINPLACE"

/// Behind the memory, in a page of its own.
struct Label {
  std::uint64_t magic;
  std::uint64_t address;
  std::uint64_t length_bytes;
};

}  // namespace

std::uint64_t process_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> processes{};
  if (boot.empty() || ::readlink("/proc/self/ns/pid", processes.data(), processes.size() - 1) <= 0) return 0;
  // FNV-1a: the same in programs of different compilers.
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : boot + processes.data()) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return hash | 1U;
}

absl::StatusOr<Pages> create_in_place(std::size_t bytes) {
  const std::size_t pages = shm::whole_pages(bytes);
  const std::size_t size = pages + shm::whole_pages(sizeof(Label));
  auto file = shm::create_memory("verbena-region", size);
  if (!file.ok()) return file.status();
  auto mapping = shm::map_memory(*file, size, shm::Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  const std::span<std::byte> all = mapping->bytes();
  const Label label{
      .magic = kLabelMagic, .address = reinterpret_cast<std::uintptr_t>(all.data()), .length_bytes = bytes};
  std::memcpy(all.data() + pages, &label, sizeof label);
  return Pages{.file = *std::move(file), .mapping = *std::move(mapping), .bytes = all.first(bytes)};
}

absl::StatusOr<InPlaceView> InPlaceView::open(std::uint32_t process, std::uint32_t number) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, number);
  const shm::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));  // NOLINT(*-vararg)
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) return errno_status(errno, path);
  const auto size = static_cast<std::size_t>(info.st_size);
  const std::size_t page = shm::whole_pages(sizeof(Label));
  if (absl::Status status = shm::check_received(file, 2 * page); !status.ok()) return status;
  auto mapping = shm::map_memory(file, size, shm::Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  Label label{};
  std::memcpy(&label, mapping->bytes().data() + size - page, sizeof label);
  if (label.magic != kLabelMagic || label.length_bytes > size - page) {
    return absl::DataLossError(fmt::format("{} is no memory to be changed in place", path));
  }
  return InPlaceView(*std::move(mapping), label.address, label.length_bytes);
}

std::byte* InPlaceView::at(std::uint64_t address, std::uint64_t length_bytes) const {
  const std::uint64_t offset = address - address_;
  const bool inside =
      address >= address_ && offset <= length_bytes_ && length_bytes <= length_bytes_ - offset;
  return inside ? mapping_.bytes().data() + offset : nullptr;
}

}  // namespace verbena::transport::verbs
