// A transport's regions, and how peers learn that one is gone.
//
// A region's key is its slot in the owner's region table and the slot's generation. The table is a memory
// file that each peer maps read-only: a key is good while its slot holds its generation. Peers check that
// before each request, so destroying a region ends their access without their help; pages that a peer still
// maps are returned to the system when it unmaps them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/shm/shared_memory.hpp"
#include "transport/transport.hpp"

namespace verbena::transport::shm {

constexpr std::uint32_t kMaxRegions = 65536;  // of one transport at a time

inline std::uint32_t region_slot(std::uint64_t key) {
  return static_cast<std::uint32_t>(key);
}

/// The generation of the region in each slot; 0 if there is none.
class RegionTable {
 public:
  RegionTable() = default;
  static absl::StatusOr<RegionTable> create();
  static absl::StatusOr<RegionTable> open(const base::FileDescriptor& received);

  [[nodiscard]] bool valid() const { return !mapping_.bytes().empty(); }
  [[nodiscard]] const base::FileDescriptor& file() const { return file_; }  ///< valid only after create()

  // Sequentially consistent: a peer that learned in any way that a region is gone sees it gone.
  void set(std::uint32_t slot, std::uint32_t generation) const {
    at(slot).store(generation, std::memory_order_seq_cst);
  }
  [[nodiscard]] bool live(std::uint64_t key) const {
    return at(region_slot(key)).load(std::memory_order_seq_cst) == key >> 32;
  }

 private:
  using Generation = std::atomic<std::uint32_t>;
  static_assert(Generation::is_always_lock_free && sizeof(Generation) == sizeof(std::uint32_t));

  RegionTable(base::FileDescriptor file, Mapping mapping)
      : file_(std::move(file)), mapping_(std::move(mapping)) {}
  /// REQUIRES: slot < kMaxRegions.
  [[nodiscard]] Generation& at(std::uint32_t slot) const {
    return reinterpret_cast<Generation*>(mapping_.bytes().data())[slot];
  }

  base::FileDescriptor file_;
  Mapping mapping_;
};

class Regions;

class ShmRegion final : public MemoryRegion {
 public:
  ShmRegion(Regions& regions, std::uint64_t key, base::FileDescriptor file, Mapping mapping,
            std::size_t bytes, Access access);
  ~ShmRegion() override;

  [[nodiscard]] std::uint64_t key() const { return key_; }
  [[nodiscard]] const base::FileDescriptor& file() const { return file_; }
  [[nodiscard]] const Regions& owner() const { return regions_; }
  /// Bytes that are promised but not in memory yet, because nobody has touched them.
  [[nodiscard]] std::uint64_t untouched_bytes() const;

 private:
  Regions& regions_;
  std::uint64_t key_;
  base::FileDescriptor file_;
  Mapping mapping_;
};

class Regions {
 public:
  static absl::StatusOr<std::unique_ptr<Regions>> create(bool check_free_memory);

  absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate(std::size_t bytes, Access access);
  void remove(const ShmRegion& region);
  [[nodiscard]] const RegionTable& table() const { return table_; }

 private:
  Regions(RegionTable table, bool check_free_memory)
      : table_(std::move(table)), check_free_memory_(check_free_memory) {}
  /// Checks what this transport has been promised against the free memory. True: since the last
  /// check_promises() this transport has been promised so much that it is time for another one.
  [[nodiscard]] absl::StatusOr<bool> check_free_memory(std::size_t bytes);
  /// The same check with what all processes of this user on the host have been promised. That includes
  /// `bytes`, because their file exists already: so of several processes that ask at once none overlooks
  /// another.
  [[nodiscard]] absl::Status check_promises(std::size_t bytes) const;
  [[nodiscard]] std::uint64_t promised_bytes() const;  ///< to regions of this transport
  absl::StatusOr<std::uint64_t> add_key();

  struct Slot {
    std::uint32_t generation = 0;
    const ShmRegion* region = nullptr;
  };
  RegionTable table_;
  bool check_free_memory_;
  std::uint64_t most_promised_bytes_ = 0;  ///< promised_bytes() is no more than this
  std::uint64_t unlooked_bytes_ = 0;       ///< promised since the last look at all processes
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace verbena::transport::shm
