#include "tests/simulation/iterations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "consistency/rules.hpp"

namespace verbena::simulation {

using consistency::Clock;
using consistency::ExampleCounts;

Iterations::Iterations(const std::vector<std::uint64_t>& examples, const Options& options)
    : options_(options), workers_(examples.size()) {
  for (std::size_t worker = 0; worker < examples.size(); ++worker)
    workers_[worker].examples = examples[worker];
}

ExampleCounts Iterations::counts(std::uint32_t worker, Clock clock) const {
  const auto found = workers_[worker].counts.find(clock);
  return found == workers_[worker].counts.end() ? ExampleCounts{} : found->second;
}

void Iterations::ask(std::uint32_t index, Clock clock, transport::TimePoint now) {
  Worker& worker = workers_[index];
  if (worker.clock != clock) {
    worker.clock = clock;
    worker.over = false;
    worker.counts[clock] = {.planned = worker.examples};
  }
  const bool finished = worker.counts[clock].processed == worker.examples;
  if (finished && worker.examples > 0) ended_.try_emplace(clock, now);
}

/// The next mini-batch. Examples come in their order, the first ones after the last; mini-batches are always
/// cut at the same places.
ExampleRange Iterations::expected(const Worker& worker) const {
  const std::uint64_t left = worker.examples - worker.counts.at(worker.clock).processed;
  return {worker.next, std::min({worker.next + options_.mini_batch, worker.next + left, worker.examples})};
}

std::optional<std::string> Iterations::check(std::uint32_t index, const ExampleRange& batch,
                                             transport::TimePoint now) {
  Worker& worker = workers_[index];
  ExampleCounts& counts = worker.counts[worker.clock];
  const auto wrong = [&](const std::string& what) {
    return fmt::format("worker {} at clock {}, after {} of {} examples: {}", index, worker.clock,
                       counts.processed, worker.examples, what);
  };
  const auto ended = ended_.find(worker.clock);
  if (batch.empty()) {
    if (counts.processed < worker.examples) {
      if (!options_.end_early) return wrong("the iteration is over under a model that ends none early");
      if (ended == ended_.end()) return wrong("the iteration is over, though nobody has finished");
      if (counts.processed == 0) return wrong("the iteration is over before it has begun");
      if (!worker.over) ++ended_early_;
    }
    worker.over = true;
    return std::nullopt;
  }
  if (worker.over) return wrong("an iteration that was over goes on");
  if (const ExampleRange next = expected(worker); batch != next)
    return wrong(
        fmt::format("examples {} to {} instead of {} to {}", batch.first, batch.last, next.first, next.last));
  if (options_.end_early && options_.news_time && ended != ended_.end() && counts.processed > 0 &&
      now - ended->second > *options_.news_time) {
    return wrong(fmt::format("the iteration goes on {:.1f} ms after its end",
                             std::chrono::duration<double, std::milli>(now - ended->second).count()));
  }
  counts.processed += batch.size();
  worker.next = batch.last == worker.examples ? 0 : batch.last;
  return std::nullopt;
}

}  // namespace verbena::simulation
