// CLI validators that say in one line what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class Validator;
}  // namespace CLI

namespace verbena::apps {

CLI::Validator whole_number(std::int64_t least, std::int64_t most);
CLI::Validator one_of(const std::vector<std::string>& choices);

}  // namespace verbena::apps
