#include "tests/fuzz/target.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace verbena::fuzz {

const Target* find_target(std::span<const Target> targets, std::string_view kind) {
  const auto found = std::ranges::find(targets, kind, &Target::kind);
  return found == targets.end() ? nullptr : &*found;
}

const std::shared_ptr<const transport::Secret>& known_secret() {
  static const auto secret =
      std::make_shared<const transport::Secret>(std::array<std::byte, transport::Secret::kBytes>{});
  return secret;
}

void require(bool holds, std::string_view what, const char* file, int line) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: does not hold: %.*s\n", file, line, static_cast<int>(what.size()),
               what.data());
  std::abort();
}

void require_refusal(const absl::Status& status, std::string_view says, const char* file, int line) {
  const std::string message(status.message());
  require(status.code() == absl::StatusCode::kInvalidArgument, status.ToString(), file, line);
  require(message.find(says) != std::string::npos, message, file, line);
}

}  // namespace verbena::fuzz
