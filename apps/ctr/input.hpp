// The examples: which are trained and which are for the test, and what each worker has of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/ctr/batches.hpp"
#include "apps/ctr/columns.hpp"
#include "apps/ctr/options.hpp"
#include "apps/ctr/worker_run.hpp"
#include "apps/data/examples.hpp"

namespace verbena::apps::ctr {

/// read_examples(), as the options say.
absl::StatusOr<ExamplesRead> read_files(const Options& options, const std::vector<std::string>& paths,
                                        absl::FunctionRef<absl::Status(const Example&)> use,
                                        const ReadProgress& progress = {});

/// Reads all examples, and checks that they can be trained and tested in this machine's memory. Returns how
/// many are for the test. Errors of read_examples(); INVALID_ARGUMENT.
absl::StatusOr<std::uint64_t> check_examples(const Options& options);

/// What one process needs of the input, ready for training.
struct Input {
  MiniBatches train;  ///< or `columns`, with the block solver
  Columns columns;
  BlockPlan plan;
  MiniBatches test;
  ExamplesRead read;                 ///< of all that trains or tests
  std::uint64_t train_examples = 0;  ///< of all workers
  std::uint64_t test_examples = 0;
};
absl::StatusOr<Input> load_input(const WorkerRun& run);

}  // namespace verbena::apps::ctr
