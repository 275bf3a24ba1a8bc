// Where an experiment's results go.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/files.hpp"

namespace verbena::apps {

/// Makes the folder of --output. INVALID_ARGUMENT if that is not possible, or if write_experiment() would
/// write one of `others`, the other files that the experiment reads or writes.
absl::Status make_output_folder(const std::string& path, Files others = {});

struct ExperimentFiles {
  std::string table;    ///< table.txt
  std::string numbers;  ///< numbers.json
  std::string page;     ///< report.html
};
/// Prints the table, writes all files into the folder, and says where they are.
absl::Status write_experiment(const std::string& folder, const ExperimentFiles& files);

}  // namespace verbena::apps
