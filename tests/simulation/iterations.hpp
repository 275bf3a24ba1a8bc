// Who has taken which examples and when: knows everything, and checks each answer of a data cursor.
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
    bool end_early = true;  ///< a table of the job has such a model
    /// How long after the end of an iteration no further mini-batch may be begun; nothing where there is no
    /// telling.
    std::optional<transport::Duration> news_time;
  };
  /// `examples` by worker.
  Iterations(const std::vector<std::uint64_t>& examples, const Options& options);

  /// To be called before DataCursor::next().
  void ask(std::uint32_t worker, consistency::Clock clock, transport::TimePoint now);
  /// What is wrong with its answer; nothing if it is as promised.
  std::optional<std::string> check(std::uint32_t worker, const ExampleRange& batch, transport::TimePoint now);

  /// Of a worker in a clock: zeros where it has not asked.
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
  std::map<consistency::Clock, transport::TimePoint> ended_;  ///< by the first worker to finish
  std::uint64_t ended_early_ = 0;
};

}  // namespace verbena::simulation
