// The examples: which are trained and which are for the test, and what each worker has of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/ctr/batches.hpp"
#include "apps/ctr/columns.hpp"
#include "apps/ctr/options.hpp"
#include "apps/data/dealing.hpp"
#include "apps/data/examples.hpp"
#include <verbena/session.hpp>

namespace verbena::apps::ctr {

/// What the summary says of --batch, which the data may decide.
inline constexpr const char* kBatchOfExamples = "batch";

/// How these files are read.
ExamplesOptions examples_in(const Options& options, const std::vector<std::string>& paths);

/// Reads all examples, and checks that they can be trained and tested in this machine's memory. Returns how
/// many are for the test. Errors of read_examples(); INVALID_ARGUMENT.
absl::StatusOr<std::uint64_t> check_examples(const Options& options);

/// What one process needs of the input, ready for training.
struct Input {
  std::unique_ptr<BatchSource> train;  ///< or `columns`, with the block solver
  Columns columns;
  BlockPlan plan;
  std::unique_ptr<BatchSource> test;
  ExamplesRead read;  ///< of all that trains or tests; with --storage files only `examples` and `format`
  std::uint64_t batch = 1;           ///< examples of a mini-batch
  std::uint64_t train_examples = 0;  ///< of all workers
  std::uint64_t test_examples = 0;
};
/// `options` must outlive the result.
absl::StatusOr<Input> load_input(const Options& options, const Member& member, Reporter& reporter);
/// FAILED_PRECONDITION: workers of other hosts have other files, or a file has changed while they read; they
/// would wait for each other. Collective, before the training.
absl::Status check_all_have_read_the_same(Session& session, const Input& input);

}  // namespace verbena::apps::ctr
