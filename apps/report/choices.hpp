// What a run decides by itself, or was told: where rows lie, how they are read, how much is done at a time.
// Each choice has its value and whether it was said by hand. `-v`, the metrics file and the report show the
// same.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/report/run_record.hpp"

namespace verbena::apps {

struct Choice {
  std::string name;  ///< the option that says it by hand, without dashes
  std::string value;
  bool by_hand = false;  ///< on the command line, and not as "auto"
  /// The name, among what the model adds to the summary, of what its data has decided; empty: nothing.
  std::string decided_by = {};
};
using Choices = std::vector<Choice>;

/// The choice of which way rows of sparse tables come from another host, and its value as long as only the
/// sessions' measurements decide it.
inline constexpr const char* kGatherChoice = "gather";
inline constexpr const char* kMeasured = "measured";
/// The value of a choice that waits for the data to be read.
inline constexpr const char* kByTheData = "by the data";

/// What has become of them in a run that has ended: what the data and the sessions' measurements have decided
/// is in place of what was open. `model_summary`: as another process has sent it; what is not as expected
/// changes nothing.
[[nodiscard]] Choices settled(Choices choices, const RunRecord& record, const nlohmann::json& model_summary);

/// "allocation localize (chosen), lanes 4 (by hand)"
[[nodiscard]] std::string choices_text(const Choices& choices);
/// A list of {"name": …, "value": …, "by_hand": …}, in order.
[[nodiscard]] nlohmann::json choices_json(const Choices& choices);
/// "chosen", "by hand"
[[nodiscard]] std::string origin_of(const Choice& choice);

}  // namespace verbena::apps
