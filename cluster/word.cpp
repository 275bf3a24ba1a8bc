#include "cluster/word.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "cluster/json_fields.hpp"

namespace verbena::cluster {
namespace {

using Json = nlohmann::json;

constexpr const char* kSuspect = "suspect";
constexpr const char* kWhy = "why";
constexpr const char* kArrived = "arrived";
constexpr const char* kHost = "host";
constexpr const char* kMachine = "machine";
constexpr const char* kTakes = "takes";
constexpr const char* kWantsToJoin = "wants to join";
constexpr const char* kHasJoined = "has joined";
constexpr const char* kWantsToLeave = "wants to leave";
constexpr const char* kTakesWorkers = "takes workers";
constexpr const char* kHasRead = "has read";

Json json_of(const Suspicion& suspicion) {
  return {{kSuspect, suspicion.address}, {kWhy, suspicion.why}};
}
Json json_of(const Arrival& arrival) {
  Json json = {{kArrived, arrival.pid}, {kHost, arrival.host}, {kMachine, arrival.machine}};
  if (arrival.takes) json[kTakes] = *arrival.takes;
  if (arrival.takes_workers) json[kTakesWorkers] = *arrival.takes_workers;
  return json;
}
Json json_of(const WantsToJoin& wish) {
  return {{kWantsToJoin, wish.address}};
}
Json json_of(const HasJoined& joined) {
  return {{kHasJoined, joined.address}};
}

Json json_of(const WantsToLeave& /*wish*/) {
  return {{kWantsToLeave, true}};
}
Json json_of(const HasRead& /*read*/) {
  return {{kHasRead, true}};
}

}  // namespace

std::string encode(const Word& word) {
  return text_of(std::visit([](const auto& one) { return json_of(one); }, word));
}

absl::StatusOr<Word> decode_word(std::string_view text) {
  const auto wrong = [] {
    return absl::InvalidArgumentError(
        "a word about configurations: expected a suspicion, an arrival, a wish to join or leave, or that it "
        "has joined or read");
  };
  const std::optional<Json> object = short_object(text);
  if (!object) return wrong();
  const Json& json = *object;
  const std::optional<std::string> suspect = text_in(json, kSuspect);
  const std::optional<std::string> why = text_in(json, kWhy);
  if (suspect && why) return Suspicion{.address = *suspect, .why = *why};
  const std::optional<std::uint32_t> arrived = number_in(json, kArrived);
  const std::optional<std::string> host = text_in(json, kHost);
  const std::optional<std::string> machine = text_in(json, kMachine);
  if (arrived && host && machine) {
    return Arrival{.pid = *arrived,
                   .host = *host,
                   .machine = *machine,
                   .takes = number_in(json, kTakes),
                   .takes_workers = number_in(json, kTakesWorkers)};
  }
  if (const auto wants = text_in(json, kWantsToJoin)) return WantsToJoin{.address = *wants};
  if (const auto joined = text_in(json, kHasJoined)) return HasJoined{.address = *joined};
  if (json.contains(kWantsToLeave)) return WantsToLeave{};
  if (json.contains(kHasRead)) return HasRead{};
  return wrong();
}

}  // namespace verbena::cluster
