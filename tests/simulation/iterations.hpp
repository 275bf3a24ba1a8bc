// Knows which worker has taken which examples and when, and checks each answer of a data cursor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "consistency/rules.hpp"
#include "consistency/weight_of_means.hpp"
#include "transport/transport.hpp"
#include <verbena/data_cursor.hpp>

namespace verbena::simulation {

class Iterations {
 public:
  struct Options {
    std::uint64_t mini_batch = 1;
    bool end_early = true;  ///< a table of the job has a model that ends iterations early
    /// Later than this after the end of an iteration, no worker may begin a further mini-batch. nullopt:
    /// there is no such bound.
    std::optional<transport::Duration> news_time;
  };
  /// `examples`: how many each worker has.
  Iterations(const std::vector<std::uint64_t>& examples, const Options& options);

  /// To be called before DataCursor::next().
  void ask(std::uint32_t worker, consistency::Clock clock, transport::TimePoint now);
  /// Returns what is wrong with the answer of DataCursor::next(); nullopt if nothing is.
  std::optional<std::string> check(std::uint32_t worker, const ExampleRange& batch, transport::TimePoint now);

  /// The counts of a worker in a clock; zeros if it has not asked.
  [[nodiscard]] consistency::ExampleCounts counts(std::uint32_t worker, consistency::Clock clock) const;
  [[nodiscard]] std::uint64_t ended_early() const { return ended_early_; }

 private:
  struct Worker {
    std::uint64_t examples = 0;
    std::uint64_t next = 0;
    consistency::Clock clock = -1;
    bool over = false;
    std::map<consistency::Clock, consistency::ExampleCounts> counts;
  };
  [[nodiscard]] ExampleRange expected(const Worker& worker) const;

  const Options options_;
  std::vector<Worker> workers_;
  std::map<consistency::Clock, transport::TimePoint> ended_;  ///< when the first worker finished
  std::uint64_t ended_early_ = 0;
};

}  // namespace verbena::simulation
