#include "job/meeting/messages.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "transport/secret.hpp"

namespace verbena::job {

std::string fresh_name() {
  const auto nonce = transport::fresh_nonce();
  return nonce.ok() ? absl::BytesToHexString({reinterpret_cast<const char*>(nonce->data()), nonce->size()})
                    : std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::string dismissed_line(const std::string& why) {
  return line_of({{says::kDismissed, why}});
}

std::string refused_line(const std::string& why) {
  return line_of({{says::kRefused, fmt::format("rank 0 refuses this process: {}", why)}});
}

std::string obstacle_of_version(const nlohmann::json& first, std::string_view who, std::string_view self) {
  const std::uint32_t version = number_in(first, says::kVersion).value_or(1);
  if (version == kMeetingVersion) return {};
  return fmt::format(
      "{} speaks version {} of the rendezvous, and {} version {}: its Verbena is {} than that of {}; "
      "expected the same Verbena for all processes of a job, on all hosts",
      who, version, self, kMeetingVersion, version < kMeetingVersion ? "older" : "newer", self);
}

std::vector<std::string> names_in(const nlohmann::json& object) {
  if (!has(object, says::kNames) || !object[says::kNames].is_array()) return {};
  std::vector<std::string> names;
  for (const nlohmann::json& name : object[says::kNames])
    names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  return names;
}

std::string back_line(const Back& back) {
  return line_of({{says::kBack, back.rank},
                  {says::kSize, back.size},
                  {says::kVersion, kMeetingVersion},
                  {says::kIncarnation, back.incarnation},
                  {says::kJob, back.job},
                  {says::kLedBy, back.led_by},
                  {says::kRoster, json_of(back.roster)},
                  {says::kWord, back.word},
                  {says::kNames, back.names}});
}

std::optional<Back> back_in(const nlohmann::json& object, std::uint32_t size) {
  const auto rank = number_in(object, says::kBack);
  const auto incarnation = number_in(object, says::kIncarnation);
  auto job = text_in(object, says::kJob);
  const auto led_by = number_in(object, says::kLedBy);
  auto word = text_in(object, says::kWord);
  auto roster = has(object, says::kRoster) ? roster_in(object[says::kRoster]) : std::nullopt;
  const bool is_possible = rank && *rank > 0 && incarnation && job && led_by && word && roster &&
                           number_in(object, says::kSize) == size &&
                           (roster->places.empty() || roster->places.size() >= size);
  if (!is_possible) return std::nullopt;
  return Back{.rank = *rank,
              .size = size,
              .incarnation = *incarnation,
              .job = *std::move(job),
              .led_by = *led_by,
              .roster = *std::move(roster),
              .word = *std::move(word),
              .names = names_in(object)};
}

}  // namespace verbena::job
