#include "transport/verbs/in_place.hpp"

#include <limits>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::transport::verbs {

absl::StatusOr<Pages> create_in_place(std::size_t bytes) {
  const std::size_t size = shm::whole_pages(bytes);
  auto file = shm::create_memory("verbena-region", size);
  if (!file.ok()) return file.status();
  auto mapping = shm::map_memory(*file, size, shm::Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  const std::span<std::byte> all = mapping->bytes();
  return Pages{.file = *std::move(file), .mapping = *std::move(mapping), .bytes = all.first(bytes)};
}

absl::StatusOr<InPlaceView> InPlaceView::open(const base::FileDescriptor& received, std::uint64_t address,
                                              std::uint64_t length_bytes) {
  if (length_bytes == 0 || length_bytes > std::numeric_limits<std::size_t>::max() / 4) {
    return absl::DataLossError("it passed memory of a length that cannot be");
  }
  const std::size_t size = shm::whole_pages(length_bytes);
  RETURN_IF_ERROR(shm::check_received(received, size));
  auto mapping = shm::map_memory(received, size, shm::Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  return InPlaceView(*std::move(mapping), address, length_bytes);
}

std::byte* InPlaceView::at(std::uint64_t address, std::uint64_t length_bytes) const {
  const std::uint64_t offset = address - address_;
  const bool inside =
      address >= address_ && offset <= length_bytes_ && length_bytes <= length_bytes_ - offset;
  return inside ? mapping_.bytes().data() + offset : nullptr;
}

}  // namespace verbena::transport::verbs
