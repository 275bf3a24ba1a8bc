// Where an experiment's results go.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace verbena::apps {

/// Of --output. INVALID_ARGUMENT where there can be none.
absl::Status make_output_folder(const std::string& path);

struct ExperimentFiles {
  std::string table;    ///< table.txt
  std::string numbers;  ///< numbers.json
  std::string page;     ///< report.html
};
/// Prints the table, writes all into the folder, and says where they are.
absl::Status write_experiment(const std::string& folder, const ExperimentFiles& files);

}  // namespace verbena::apps
