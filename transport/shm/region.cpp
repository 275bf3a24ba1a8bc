#include "transport/shm/region.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/return_if_error.hpp"
#include "transport/shm/host_memory.hpp"

namespace verbena::transport::shm {

namespace {

/// By this name processes find each other's regions (host_memory.hpp).
constexpr const char* kRegionName = "verbena-region";
/// A look at all processes takes time. So it is made only when the transport has promised at least one part
/// in so many of the free memory since the last look.
constexpr std::uint64_t kShareWorthALook = 256;

constexpr std::size_t kTableBytes = std::size_t{kMaxRegions} * sizeof(std::uint32_t);

// Pages are allocated at the first touch: filling them beforehand would cost a region's whole size in time
// and memory, whether it is used or not. Where the kernel promises more than it has, a lack of memory kills a
// process and does not raise SIGBUS. Where it promises nothing (overcommit_memory = 2), a touch raises
// SIGBUS; so there, and only there, the pages are taken now.
absl::Status take_pages_if_needed(const base::FileDescriptor& file, std::size_t bytes) {
  if (!overcommit_forbidden() || ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) == 0) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      fmt::format("the host has not got the {} bytes of a region (overcommit is off)", bytes));
}

}  // namespace

absl::StatusOr<RegionTable> RegionTable::create() {
  auto file = create_memory("verbena-regions", kTableBytes);
  if (!file.ok()) return file.status();
  auto mapping = map_memory(*file, kTableBytes, Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  RETURN_IF_ERROR(make_read_only(*file));
  return RegionTable(std::move(*file), std::move(*mapping));
}

absl::StatusOr<RegionTable> RegionTable::open(const base::FileDescriptor& received) {
  RETURN_IF_ERROR(check_received(received, kTableBytes));
  auto mapping = map_memory(received, kTableBytes, Protection::kRead);
  if (!mapping.ok()) return mapping.status();
  return RegionTable(base::FileDescriptor(), std::move(*mapping));
}

ShmRegion::ShmRegion(Regions& regions, std::uint64_t key, base::FileDescriptor file, Mapping mapping,
                     std::size_t bytes, Access access)
    : MemoryRegion(mapping.bytes().first(bytes), access),
      regions_(regions),
      key_(key),
      file_(std::move(file)),
      mapping_(std::move(mapping)) {}

ShmRegion::~ShmRegion() {
  regions_.remove(*this);
}

std::uint64_t ShmRegion::untouched_bytes() const {
  const std::uint64_t size = mapping_.bytes().size();
  return size - std::min<std::uint64_t>(size, resident_bytes(file_));
}

absl::StatusOr<std::unique_ptr<Regions>> Regions::create(bool check_free_memory) {
  auto table = RegionTable::create();
  if (!table.ok()) return table.status();
  return std::unique_ptr<Regions>(new Regions(std::move(*table), check_free_memory));
}

absl::StatusOr<bool> Regions::check_free_memory(std::size_t bytes) {
  if (!check_free_memory_) return false;
  const FreeMemory free = free_memory();
  const auto fits = [&](std::uint64_t promised) {
    return promised <= free.bytes && bytes <= free.bytes - promised;
  };
  // Regions are asked only if it matters: a table that grows has a thousand of them.
  const std::uint64_t promised = fits(most_promised_bytes_) ? most_promised_bytes_ : promised_bytes();
  if (fits(promised)) {
    most_promised_bytes_ = promised + bytes;
    unlooked_bytes_ += bytes;
    if (unlooked_bytes_ < free.bytes / kShareWorthALook) return false;
    unlooked_bytes_ = 0;
    return true;
  }
  return absl::ResourceExhaustedError(fmt::format(
      "a region of {} bytes does not fit: {} leaves {} bytes, and {} of them are promised to earlier "
      "regions",
      bytes, free.limit, free.bytes, promised));
}

std::uint64_t Regions::promised_bytes() const {
  std::uint64_t promised = 0;
  for (const Slot& slot : slots_) promised += slot.region == nullptr ? 0 : slot.region->untouched_bytes();
  return promised;
}

absl::Status Regions::check_promises(std::size_t bytes) const {
  const PromisedMemory memory = promised_memory(kRegionName);
  if (memory.promised_bytes <= memory.free.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "a region of {} bytes does not fit: {} leaves {} bytes, and with it {} of them would be promised to "
      "processes of this user that have not used them yet",
      bytes, memory.free.limit, memory.free.bytes, memory.promised_bytes));
}

absl::StatusOr<std::uint64_t> Regions::add_key() {
  if (free_slots_.empty()) {
    if (slots_.size() == kMaxRegions) {
      return absl::ResourceExhaustedError(fmt::format("there are {} regions already, the most", kMaxRegions));
    }
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  std::uint32_t& generation = slots_[slot].generation;
  if (++generation == 0) ++generation;  // 0 means no region
  table_.set(slot, generation);
  return std::uint64_t{generation} << 32 | slot;
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> Regions::allocate(std::size_t bytes, Access access) {
  if (bytes == 0) return absl::InvalidArgumentError("a region of 0 bytes was asked for");
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) {
    return absl::ResourceExhaustedError(fmt::format("a region of {} bytes fits into no machine", bytes));
  }
  const std::size_t size = whole_pages(bytes);
  const absl::StatusOr<bool> is_worth_a_look = check_free_memory(size);
  if (!is_worth_a_look.ok()) return is_worth_a_look.status();
  auto file = create_memory(kRegionName, size);
  if (!file.ok()) return file.status();
  if (*is_worth_a_look) {
    RETURN_IF_ERROR(check_promises(size));
  }
  RETURN_IF_ERROR(take_pages_if_needed(*file, size));
  auto mapping = map_memory(*file, size, Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  if (!allows(access, Access::kRemoteWrite) && !allows(access, Access::kRemoteReadHostWrite)) {
    RETURN_IF_ERROR(make_read_only(*file));
  }
  auto key = add_key();
  if (!key.ok()) return key.status();
  auto region =
      std::make_unique<ShmRegion>(*this, *key, std::move(*file), std::move(*mapping), bytes, access);
  slots_[region_slot(*key)].region = region.get();
  return region;
}

void Regions::remove(const ShmRegion& region) {
  const std::uint32_t slot = region_slot(region.key());
  table_.set(slot, 0);
  slots_[slot].region = nullptr;
  free_slots_.push_back(slot);
}

}  // namespace verbena::transport::shm
