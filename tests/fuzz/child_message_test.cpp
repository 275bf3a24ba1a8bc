// Lines that a worker or server process may have written.
#include "job/child_message.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/fuzz/mutator.hpp"

namespace verbena::apps {
namespace {

using verbena::testing::GuardedMemory;
using verbena::testing::Mutator;

constexpr int kLineRounds = verbena::testing::rounds(100'000);

TEST(ChildMessageFuzz, Lines) {
  job::FinishedMessage finished{.worker = 1, .seconds = 2.5, .statistics = {}};
  finished.statistics.rows_pulled = 1'000'000'007;
  finished.statistics.staleness.reads_by_lag = {0, 4, 5};
  Mutator mutator(1,
                  {encode(job::IterationMessage{.worker = 3,
                                                .report = {.iteration = 7,
                                                           .items = 100,
                                                           .seconds = 0.25,
                                                           .sums = {{"error", 1.5}, {"count", 2}}}}),
                   encode(job::ProgressMessage{.worker = 1, .what = "reading data", .done = 3, .total = 4}),
                   encode(job::PrintMessage{"topic 1: \"caf\xC3\xA9\""}),
                   encode(job::SummaryMessage{.name = "topics", .value = {{"a", {1, 2, nullptr}}}}),
                   encode(job::StatisticsMessage{2, 1.5, finished.statistics}), encode(finished),
                   encode(job::ServedMessage{.bytes_to_copies = 1'000'000'007}),
                   encode(job::FailedMessage{absl::UnavailableError("server 1 is gone")}),
                   encode(job::FailedMessage{absl::AbortedError("killed"), job::Cause::kSilentEnd}),
                   encode(job::SignaledMessage{.signal = 15}), encode(job::AskedToStopMessage{.signal = 2}),
                   encode(job::HeldMessage{.begun = 7, .has_finished = true}),
                   encode(job::EndedMessage{.status = 143}), encode(job::SteppedAsideMessage{}),
                   encode(job::SilentWorkerMessage{.worker = 1, .why = "no sign of life"})},
                  {"\"", "{", "}", "[", "]", ",", ":", "null", "-1", "1e999", "1e300", "0.5", "true",
                   "18446744073709551615", "\\u0000", "\\ud800", "\xff", "\n", "[[[[[[[["});
  GuardedMemory memory;
  std::array<int, std::variant_size_v<job::ChildMessage>> accepted{};
  for (int round = 0; round < kLineRounds; ++round) {
    const std::string line = mutator.next();
    const absl::StatusOr<job::ChildMessage> message = job::decode(memory.put(line));
    if (!message.ok()) {
      ASSERT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++accepted[message->index()];
    // What was decoded is what was sent, and can be encoded again.
    const nlohmann::json said = nlohmann::json::parse(line);
    const std::string again = encode(*message);
    const nlohmann::json understood = nlohmann::json::parse(again);
    for (const auto& [name, value] : understood.items()) {
      if (name == "code") continue;  // an unknown one becomes UNKNOWN
      ASSERT_EQ(value, said.at(name)) << line;
    }
    ASSERT_EQ(encode(job::decode(again).value()), again) << line;
  }
  for (const int count : accepted) EXPECT_GT(count, kLineRounds / 1000);
}

}  // namespace
}  // namespace verbena::apps
