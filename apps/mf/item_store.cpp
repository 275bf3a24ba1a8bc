#include "apps/mf/item_store.hpp"

namespace verbena::apps::mf {

absl::StatusOr<Rows> TableItems::open(std::uint32_t first, std::uint32_t last) {
  range_ = {first, last};
  packed_.resize(range_.size() * rows_.format().width());
  if (absl::Status status = table_.pull(range_, packed_); !status.ok()) return status;
  rows_.unpack(packed_);
  slowdown_.computing_begins();
  return rows_.rows();
}

absl::Status TableItems::close(std::uint64_t trained) {
  slowdown_.computing_ends(trained);
  rows_.difference(packed_);
  return table_.push(range_, packed_);
}

absl::Status TableItems::clock() {
  slowdown_.clock_ends();
  return session_.clock();
}

}  // namespace verbena::apps::mf
