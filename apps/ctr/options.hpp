// The options of `verbena run ctr`, and what follows from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "apps/ctr/parameters.hpp"
#include "apps/data/dealing.hpp"
#include "apps/files.hpp"
#include "apps/options/given_options.hpp"
#include "protocol/eviction.hpp"
#include "protocol/filter_rule.hpp"
#include "protocol/push_encoding.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps::ctr {

inline constexpr std::string_view kFtrlSolver = "ftrl";
inline constexpr std::string_view kBlockSolver = "block";
inline constexpr std::string_view kInMemory = "memory";
inline constexpr std::string_view kInFiles = "files";
inline constexpr const char* kBatchNote = "--batch";  ///< of a checkpoint

struct Options {
  std::vector<std::string> data;
  std::vector<std::string> test_data;
  double test_fraction = 0.1;
  std::string format = "auto";
  double positive = 4;
  std::string storage{kInMemory};
  std::string solver{kFtrlSolver};
  std::int64_t passes = 0;
  std::int64_t test_every = 1;
  std::int64_t batch = 0;
  std::int64_t rank = 0;
  std::int64_t blocks = 0;
  double kkt_ratio = 10;
  double tolerance = 1e-5;
  double alpha = 0.1;
  double beta = 1;
  std::optional<double> l1;
  double l2 = 0;
  double factor_rate = 0.05;
  double factor_deviation = 0.01;
  double factor_regularization = 0;
  std::int64_t min_count = 1;
  std::int64_t factor_min_count = 10;
  std::string admission;  ///< empty: by the two counts
  std::string eviction{protocol::kEvictNever};
  std::string filter{protocol::kNoFilter};
  std::string encoding{protocol::kUsualEncoding};
  std::uint64_t seed = 1;
  std::string output;
  std::string start;
  std::string load;
  std::string predict;

  /// Adds options that set these members. `command` must not be parsed after their end.
  void add_to(CLI::App& command);
  [[nodiscard]] Files files() const;
  /// Whether each may be so, and goes with the others; one that was given and would do nothing does not.
  /// Looks at no file.
  [[nodiscard]] absl::Status check() const;
  /// Whether they can be had without a parameter server.
  [[nodiscard]] absl::Status check_baseline() const;

  // What follows from them, also if they are wrong.
  // ----------------------------------------------------------------------------------------------------------
  [[nodiscard]] bool trains() const { return load.empty(); }
  /// --positive is on the command line, which only ratings have a use for.
  [[nodiscard]] bool says_positive() const { return given_.contains("positive"); }
  [[nodiscard]] bool has_blocks() const { return solver == kBlockSolver; }
  /// The examples stay in the files, and are read whenever they are needed.
  [[nodiscard]] bool streams() const { return storage == kInFiles; }
  /// What the user should have instead where there is too little memory.
  [[nodiscard]] std::string_view what_needs_less_memory() const;
  [[nodiscard]] std::int64_t chosen_passes() const;  ///< with blocks: the most
  [[nodiscard]] double chosen_l1() const;
  /// Application::chosen()
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const;
  /// Application::leaves_open()
  [[nodiscard]] bool leaves_open(std::string_view option) const;
  /// Application::goes_on_from()
  void goes_on_from(const std::map<std::string, std::string>& notes);

  // REQUIRES: check() has succeeded.
  // ----------------------------------------------------------------------------------------------------------
  [[nodiscard]] std::size_t factors() const { return static_cast<std::size_t>(rank); }  ///< of a feature
  /// Of a mini-batch; nullopt: the data decides, by kBatchSize.
  [[nodiscard]] std::optional<std::uint64_t> batch_examples() const;
  [[nodiscard]] Rules rules() const;

 private:
  void add(CLI::App& command);
  [[nodiscard]] absl::Status check_values() const;
  [[nodiscard]] absl::Status check_rules() const;
  [[nodiscard]] absl::Status check_together() const;
  [[nodiscard]] std::string_view why_idle(std::string_view option) const;

  GivenOptions given_;
  std::optional<std::uint64_t> saved_batch_;  ///< of the checkpoint that the run goes on from
};

/// Of a mini-batch with --solver ftrl, which is a worker's clock (docs/click-through.md).
inline constexpr BatchSize kBatchSize = {.most = 1000, .least = 10, .batches = 300};
/// With --solver block, by which they are only dealt.
inline constexpr std::uint64_t kDealtToBlocks = 1000;

}  // namespace verbena::apps::ctr
