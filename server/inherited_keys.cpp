#include "server/inherited_keys.hpp"

#include <fmt/format.h>

namespace verbena::server {

absl::StatusOr<InheritedKeys> InheritedKeys::create(KeyRange keys, std::uint32_t from) {
  absl::StatusOr<Homes> homes = Homes::create(keys, from);
  if (!homes.ok()) return homes.status();
  return InheritedKeys(keys, from, *std::move(homes));
}

void InheritedKeys::forget(std::uint32_t worker) {
  std::erase_if(waiting_, [&](const Request& request) { return request.worker.rank == worker; });
}

std::vector<std::uint32_t> InheritedKeys::take_counters() {
  std::vector<std::uint32_t> fresh;
  for (const Request& request : waiting_) {
    if (counts(request.worker.rank)) continue;
    counting_.push_back(request.worker.rank);
    fresh.push_back(request.worker.rank);
  }
  return fresh;
}

absl::Status InheritedKeys::found(std::uint32_t worker, const protocol::KeyAnswers::Answer& answer) {
  const bool is_image = answer.kind == protocol::KeyAnswers::Kind::kHasImage;
  if (!is_image && (answer.kind != protocol::KeyAnswers::Kind::kHas || answer.epoch == 0)) {
    return absl::InvalidArgumentError(fmt::format("found key {} by an answer of kind {}, at epoch {}",
                                                  answer.key, static_cast<std::uint32_t>(answer.kind),
                                                  answer.epoch));
  }
  if (counts(worker)) homes_.found(answer.key, answer.node, answer.epoch);
  return absl::OkStatus();
}

bool InheritedKeys::end(std::uint32_t worker, std::vector<Request>& waiting) {
  if (!counts(worker)) return false;
  are_known_ = true;
  counting_.clear();
  waiting = std::exchange(waiting_, {});
  return true;
}

}  // namespace verbena::server
