// The lists of keys that one worker has sent to one lane of a table, and names by numbers since
// (protocol/packed_updates.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/keys.hpp>

namespace verbena::server {

class ImageReader;
class ImageWriter;

using KeyList = std::shared_ptr<const std::vector<Key>>;

/// Thread safety: none. The lists may be used in any thread.
class KeyLists {
 public:
  /// Takes the place of the list of that number, if there is one. INVALID_ARGUMENT: more than a worker may
  /// have.
  absl::Status set(std::uint32_t number, KeyList keys);
  /// INVALID_ARGUMENT: there is none, or it has another number of keys.
  [[nodiscard]] absl::StatusOr<KeyList> find(std::uint32_t number, std::uint32_t count) const;

  // For images (image.hpp).
  void write_image(ImageWriter& out) const;
  absl::Status read_image(ImageReader& in);

 private:
  std::vector<KeyList> lists_;
  std::uint64_t keys_ = 0;  ///< in all of them
};

}  // namespace verbena::server
