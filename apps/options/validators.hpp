// CLI validators that say in one line what was expected.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class Validator;
}  // namespace CLI

namespace verbena::apps {

CLI::Validator positive_number();
CLI::Validator one_of(const std::vector<std::string>& choices);
/// Refuses a value that `check` refuses, with its message.
CLI::Validator accepted_by(std::function<absl::Status(const std::string&)> check);

}  // namespace verbena::apps
