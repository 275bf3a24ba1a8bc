// Options that are numbers. Use only add_number() to add one:
// CLI11 itself reads "010" as octal, and -1 as 2⁶⁴ − 1.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace verbena::apps {

/// The number type in an option's variable.
template <class Variable>
struct NumberOf {
  using Type = Variable;
};
template <class Number>
struct NumberOf<std::optional<Number>> {
  using Type = Number;
};
template <class Number>
struct NumberOf<std::vector<Number>> {
  using Type = Number;
};

template <class Number>
struct Bounds {
  Number least = std::numeric_limits<Number>::lowest();
  Number most = std::numeric_limits<Number>::max();
};

/// Adds an option that parse_decimal() reads into `variable`, which may be a number, an optional one or a
/// vector of them. The option's results are replaced by the numbers as they were understood ("010" becomes
/// "10"), so that the value that is recorded, or passed to another process, is the value that is used.
/// `command` must not outlive `variable`.
template <class Variable>
CLI::Option* add_number(CLI::App& command, const std::string& name, Variable& variable,
                        const std::string& help,
                        std::type_identity_t<Bounds<typename NumberOf<Variable>::Type>> bounds = {});

}  // namespace verbena::apps
