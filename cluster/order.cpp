#include "cluster/order.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "cluster/json_fields.hpp"

namespace verbena::cluster {
namespace {

using Json = nlohmann::json;

constexpr const char* kBecomesCopy = "becomes a copy of";
constexpr const char* kIsNotNeeded = "is not needed";
constexpr const char* kStartsAnother = "starts";
constexpr const char* kStepsAside = "steps aside";
constexpr const char* kStays = "stays";
constexpr const char* kBecomesWorkers = "becomes the workers of";
constexpr const char* kHasLeader = "is led from";
constexpr const char* kLeadersMachine = "machine";

Json json_of_order(const BecomesCopy& order) {
  return {{kBecomesCopy, order.server}};
}
Json json_of_order(const IsNotNeeded& order) {
  return {{kIsNotNeeded, order.why}};
}
Json json_of_order(const StartsAnother& order) {
  return {{kStartsAnother, order.rank}};
}
Json json_of_order(const StepsAside& /*order*/) {
  return {{kStepsAside, true}};
}
Json json_of_order(const Stays& /*order*/) {
  return {{kStays, true}};
}
Json json_of_order(const BecomesWorkers& order) {
  return {{kBecomesWorkers, order.rank}};
}
Json json_of_order(const HasLeader& order) {
  return {{kHasLeader, order.address}, {kLeadersMachine, order.machine}};
}

}  // namespace

std::string encode(const Order& order) {
  return text_of(std::visit([](const auto& one) { return json_of_order(one); }, order));
}

absl::StatusOr<Order> decode_order(std::string_view text) {
  const auto wrong = [] {
    return absl::InvalidArgumentError(
        "an order of rank 0: expected to become a copy or workers, not to be needed, to start another "
        "process, to step aside or stay, or to be led from elsewhere");
  };
  const std::optional<Json> object = short_object(text);
  if (!object) return wrong();
  const Json& json = *object;
  if (const auto server = number_in(json, kBecomesCopy)) return BecomesCopy{.server = *server};
  if (const auto rank = number_in(json, kStartsAnother)) return StartsAnother{.rank = *rank};
  if (const auto why = text_in(json, kIsNotNeeded)) return IsNotNeeded{.why = *why};
  if (const auto workers = number_in(json, kBecomesWorkers)) return BecomesWorkers{.rank = *workers};
  if (json.contains(kStepsAside)) return StepsAside{};
  if (json.contains(kStays)) return Stays{};
  const auto leader = text_in(json, kHasLeader);
  const auto machine = text_in(json, kLeadersMachine);
  if (leader && machine) return HasLeader{.address = *leader, .machine = *machine};
  return wrong();
}

}  // namespace verbena::cluster
