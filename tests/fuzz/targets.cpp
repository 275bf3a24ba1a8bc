#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/target.hpp"

namespace verbena::fuzz {
namespace {

constexpr auto kTargets = std::to_array<Target>({
    {"bench-message", bench_message},
    {"bench-orders", bench_orders},
    {"bulk-message", bulk_message},
    {"child-line", child_line},
    {"consistency-name", consistency_name},
    {"control-message", control_message},
    {"corpus", corpus},
    {"kge-model", kge_model},
    {"leader", leader},
    {"leader-link", leader_link},
    {"lines", lines},
    {"ratings", ratings},
    {"rendezvous", rendezvous},
    {"secret-file", secret_file},
    {"server", server},
    {"shm-answer", shm_answer},
    {"shm-channel", shm_channel},
    {"shm-control", shm_control},
    {"stop-words", stop_words},
    {"triples", triples},
    {"vectors", vectors},
    {"verbs-address", verbs_address},
    {"verbs-answer", verbs_answer},
    {"verbs-hello", verbs_hello},
    {"verbs-neighbour", verbs_neighbour},
    {"vocabulary", vocabulary},
    {"words", words},
});

}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

const Target* find_target(std::string_view kind) {
  const auto* const found = std::ranges::find(kTargets, kind, &Target::kind);
  return found == kTargets.end() ? nullptr : found;
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
