#include "protocol/saved_table.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"

namespace verbena::protocol {
namespace {

using nlohmann::json;

/// No enumeration of attributes has a larger value.
constexpr std::uint32_t kMostChoices = 16;

absl::Status expected(std::string_view attribute, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("expected \"{}\" to be {}", attribute, what));
}

absl::Status read_attribute(std::string_view name, const json& value, const auto& /*is_valid*/,
                            std::string& to) {
  // is_valid() would say the same of it; but not what was expected.
  const auto* const text = value.get_ptr<const std::string*>();
  if (text == nullptr || text->empty() || text->size() > kMaxNameBytes)
    return expected(name, fmt::format("a text of 1 to {} bytes", kMaxNameBytes));
  to = *text;
  return absl::OkStatus();
}

template <class Number>
requires std::is_unsigned_v<Number> absl::Status read_attribute(std::string_view name, const json& value,
                                                                const auto& /*is_valid*/, Number& to) {
  const auto* const number = value.get_ptr<const json::number_unsigned_t*>();
  if (number == nullptr || !std::in_range<Number>(*number))
    return expected(name, fmt::format("a whole number from 0 to {}", std::numeric_limits<Number>::max()));
  to = static_cast<Number>(*number);
  return absl::OkStatus();
}

template <class Choice>
requires std::is_enum_v<Choice> absl::Status read_attribute(std::string_view name, const json& value,
                                                            const auto& is_valid, Choice& to) {
  const auto* const text = value.get_ptr<const std::string*>();
  std::string choices;
  for (std::uint32_t number = 0; number <= kMostChoices; ++number) {
    const auto choice = static_cast<Choice>(number);
    if (!is_valid(choice)) continue;
    if (text != nullptr && *text == name_of(choice)) {
      to = choice;
      return absl::OkStatus();
    }
    choices += fmt::format("{}\"{}\"", choices.empty() ? "" : " or ", name_of(choice));
  }
  return expected(name, choices);
}

absl::StatusOr<OpenTable> read_table(const json& description, std::uint32_t number) {
  if (!description.is_object()) return absl::InvalidArgumentError("expected an object");
  OpenTable table;
  table.table = number;
  absl::Status status;
  visit_attributes([&](std::string_view name, auto attribute, const auto& is_valid, const auto& shown) {
    if (!status.ok()) return;
    const auto value = description.find(name);
    if (value == description.end()) {
      status = absl::InvalidArgumentError(fmt::format("expected an attribute \"{}\"", name));
      return;
    }
    status = read_attribute(name, *value, is_valid, table.*attribute);
    if (status.ok() && !is_valid(table.*attribute))
      status = absl::InvalidArgumentError(fmt::format("a table cannot have {}", shown(table.*attribute)));
  });
  RETURN_IF_ERROR(status);
  return table;
}

/// Whether tables with these keys can have each other's rows only if they have the same of this.
bool must_agree(std::string_view attribute, bool are_dense, bool are_sparse) {
  if (attribute == "rows") return are_dense;
  if (attribute == "initial" || attribute == "seed") return are_sparse;
  return attribute == "value_type" || attribute == "width" || attribute == "key_space" || attribute == "rule";
}

}  // namespace

json description_of(const OpenTable& table) {
  json description = json::object();
  visit_attributes([&](const char* name, auto attribute, auto, auto) {
    const auto& value = table.*attribute;
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(value)>>) {
      description[name] = name_of(value);
    } else {
      description[name] = value;
    }
  });
  return description;
}

absl::StatusOr<OpenTable> table_of(const json& description, std::uint32_t number) {
  absl::StatusOr<OpenTable> table = read_table(description, number);
  if (table.ok()) return table;
  return absl::InvalidArgumentError(base::printable(
      fmt::format("the description of table {}: {}", number, std::string(table.status().message()))));
}

absl::Status check_resumable(const OpenTable& saved, const OpenTable& now) {
  const bool are_dense = saved.key_space == KeySpace::kDense && now.key_space == KeySpace::kDense;
  const bool are_sparse = saved.key_space == KeySpace::kSparse && now.key_space == KeySpace::kSparse;
  std::string was;
  std::string is;
  visit_attributes([&](std::string_view name, auto attribute, auto, auto shown) {
    if (saved.*attribute == now.*attribute || !must_agree(name, are_dense, are_sparse)) return;
    const std::string_view separator = was.empty() ? "" : ", ";
    was += fmt::format("{}{}", separator, shown(saved.*attribute));
    is += fmt::format("{}{}", separator, shown(now.*attribute));
  });
  if (was.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(base::printable(
      fmt::format("table \"{}\" was saved with {}, and is opened with {}", now.name, was, is)));
}

std::vector<std::uint32_t> SavedColumns::row_bytes() const {
  std::vector<std::uint32_t> there;
  for (const std::uint32_t bytes : {key_bytes, values_bytes, state_bytes, use_bytes}) {
    if (bytes > 0) there.push_back(bytes);
  }
  return there;
}

SavedColumns saved_columns(bool scattered, std::size_t stride_bytes, std::size_t state_bytes, bool has_uses) {
  return {.key_bytes = scattered ? static_cast<std::uint32_t>(sizeof(Key)) : 0,
          .values_bytes = static_cast<std::uint32_t>(stride_bytes),
          .state_bytes = static_cast<std::uint32_t>(state_bytes),
          .use_bytes = scattered && has_uses ? static_cast<std::uint32_t>(sizeof(RowUse)) : 0};
}

}  // namespace verbena::protocol
