#include "apps/report/choices.hpp"

#include <fmt/format.h>

#include <optional>

#include "apps/report/format.hpp"

namespace verbena::apps {
namespace {

/// What sessions have measured to be faster; empty: they had nothing to decide.
std::string gathered(const RunRecord& record) {
  const std::optional<double> share = record.share_gathered();
  return share ? fmt::format("{}: {} of the rows pulled", kMeasured, format_share(*share)) : std::string();
}

/// A number or a text of the model's summary; empty: it is none.
std::string decided(const nlohmann::json& model_summary, const std::string& name) {
  if (!model_summary.is_object()) return {};
  const auto found = model_summary.find(name);
  if (found == model_summary.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_number() ? found->dump() : std::string();
}

}  // namespace

Choices settled(Choices choices, const RunRecord& record, const nlohmann::json& model_summary) {
  for (Choice& choice : choices) {
    std::string value;
    if (choice.name == kGatherChoice && choice.value == kMeasured) value = gathered(record);
    if (!choice.by_hand && !choice.decided_by.empty()) value = decided(model_summary, choice.decided_by);
    if (!value.empty()) choice.value = std::move(value);
  }
  return choices;
}

std::string origin_of(const Choice& choice) {
  return choice.by_hand ? "by hand" : "chosen";
}

std::string choices_text(const Choices& choices) {
  std::string text;
  for (const Choice& choice : choices) {
    text +=
        fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", choice.name, choice.value, origin_of(choice));
  }
  return text;
}

nlohmann::json choices_json(const Choices& choices) {
  nlohmann::json all = nlohmann::json::array();
  for (const Choice& choice : choices)
    all.push_back({{"name", choice.name}, {"value", choice.value}, {"by_hand", choice.by_hand}});
  return all;
}

}  // namespace verbena::apps
