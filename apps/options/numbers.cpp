#include "apps/options/numbers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>

#include "base/decimal.hpp"

namespace verbena::apps {
namespace {

template <class Number>
std::string text_of(const Number& number) {
  return fmt::format("{}", number);
}
template <class Number>
std::string text_of(const std::optional<Number>& number) {
  return number ? text_of(*number) : std::string();
}
template <class Number>
std::string text_of(const std::vector<Number>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

template <class Number>
std::string expectation(const Bounds<Number>& bounds) {
  const char* const kind = std::integral<Number> ? "whole number" : "number";
  constexpr Bounds<Number> kAny;
  // The limits of a floating-point type would tell the user nothing.
  if (std::floating_point<Number> && bounds.least == kAny.least && bounds.most == kAny.most) {
    return fmt::format("a {} is expected,", kind);
  }
  return fmt::format("a {} from {} to {} is expected,", kind, bounds.least, bounds.most);
}

/// The variable keeps its value where a text is none of its numbers; by then the option has refused it.
template <class Number>
bool assign(const std::vector<std::string>& texts, std::vector<Number>& numbers) {
  numbers.clear();
  for (const std::string& text : texts) {
    const std::optional<Number> number = base::parse_decimal<Number>(text);
    if (!number) return false;
    numbers.push_back(*number);
  }
  return true;
}
template <class Variable>
bool assign(const std::vector<std::string>& texts, Variable& variable) {
  const auto number = base::parse_decimal<typename NumberOf<Variable>::Type>(texts.back());
  if (number) variable = *number;
  return number.has_value();
}

template <class Variable>
constexpr bool kIsVector = false;
template <class Number>
constexpr bool kIsVector<std::vector<Number>> = true;

}  // namespace

template <class Variable>
CLI::Option* add_number(CLI::App& command, const std::string& name, Variable& variable,
                        const std::string& help,
                        std::type_identity_t<Bounds<typename NumberOf<Variable>::Type>> bounds) {
  using Number = typename NumberOf<Variable>::Type;
  CLI::Option* option = command.add_option(
      name, [&variable](const CLI::results_t& texts) { return assign(texts, variable); }, help, false,
      [&variable] { return text_of(variable); });
  option->type_name(std::integral<Number> ? "N" : "NUMBER");
  if (kIsVector<Variable>) option->expected(CLI::detail::expected_max_vector_size);
  option->run_callback_for_default();
  option->transform(CLI::Validator(
      [bounds](std::string& text) {
        const std::optional<Number> number = base::parse_decimal<Number>(text);
        if (!number || *number < bounds.least || *number > bounds.most) {
          return fmt::format("{} not \"{}\"", expectation(bounds), text);
        }
        text = text_of(*number);
        return std::string();
      },
      ""));
  return option;
}

template CLI::Option* add_number(CLI::App&, const std::string&, std::int64_t&, const std::string&,
                                 Bounds<std::int64_t>);
template CLI::Option* add_number(CLI::App&, const std::string&, std::uint64_t&, const std::string&,
                                 Bounds<std::uint64_t>);
template CLI::Option* add_number(CLI::App&, const std::string&, std::uint32_t&, const std::string&,
                                 Bounds<std::uint32_t>);
template CLI::Option* add_number(CLI::App&, const std::string&, double&, const std::string&, Bounds<double>);
template CLI::Option* add_number(CLI::App&, const std::string&, std::optional<std::int64_t>&,
                                 const std::string&, Bounds<std::int64_t>);
template CLI::Option* add_number(CLI::App&, const std::string&, std::optional<std::uint32_t>&,
                                 const std::string&, Bounds<std::uint32_t>);
template CLI::Option* add_number(CLI::App&, const std::string&, std::optional<double>&, const std::string&,
                                 Bounds<double>);
template CLI::Option* add_number(CLI::App&, const std::string&, std::vector<std::uint64_t>&,
                                 const std::string&, Bounds<std::uint64_t>);
template CLI::Option* add_number(CLI::App&, const std::string&, std::vector<std::uint32_t>&,
                                 const std::string&, Bounds<std::uint32_t>);

}  // namespace verbena::apps
