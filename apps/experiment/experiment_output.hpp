// Where an experiment's results go.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/files.hpp"

namespace verbena::apps {

/// Of --output. INVALID_ARGUMENT where there can be none, or where what write_experiment() would write is one
/// of `others`, which the experiment reads or writes besides.
absl::Status make_output_folder(const std::string& path, Files others = {});

struct ExperimentFiles {
  std::string table;    ///< table.txt
  std::string numbers;  ///< numbers.json
  std::string page;     ///< report.html
};
/// Prints the table, writes all into the folder, and says where they are.
absl::Status write_experiment(const std::string& folder, const ExperimentFiles& files);

}  // namespace verbena::apps
