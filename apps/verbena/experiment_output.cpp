#include "apps/verbena/experiment_output.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "apps/data/output_file.hpp"
#include "apps/verbena/console.hpp"
#include "protocol/printable.hpp"

namespace verbena::apps {

absl::Status make_output_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--output {}: cannot create the folder: {}", path, error ? error.message() : "is a file"));
}

absl::Status write_experiment(const std::string& folder, const ExperimentFiles& files) {
  put(stdout, files.table);
  for (const auto& [name, text] : {std::pair("table.txt", &files.table),
                                   {"numbers.json", &files.numbers},
                                   {"report.html", &files.page}}) {
    if (absl::Status status = write_file(folder + "/" + name, *text); !status.ok()) return status;
  }
  put(stdout,
      protocol::printable_lines(fmt::format("\n{0}/table.txt, {0}/numbers.json, {0}/report.html\n", folder)));
  return absl::OkStatus();
}

}  // namespace verbena::apps
