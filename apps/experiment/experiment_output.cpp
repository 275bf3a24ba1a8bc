#include "apps/experiment/experiment_output.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "apps/data/distinct_files.hpp"
#include "apps/data/output_file.hpp"
#include "apps/report/console.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr const char* kTable = "table.txt";
constexpr const char* kNumbers = "numbers.json";
constexpr const char* kPage = "report.html";

}  // namespace

absl::Status make_output_folder(const std::string& path, Files others) {
  for (const char* const name : {kTable, kNumbers, kPage})
    others.writes("--output", fmt::format("{}/{}", path, name));
  RETURN_IF_ERROR(check_distinct(others));
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--output {}: cannot create the folder: {}", path, error ? error.message() : "is a file"));
}

absl::Status write_experiment(const std::string& folder, const ExperimentFiles& files) {
  put(stdout, files.table);
  for (const auto& [name, text] :
       {std::pair(kTable, &files.table), {kNumbers, &files.numbers}, {kPage, &files.page}}) {
    RETURN_IF_ERROR(write_file(folder + "/" + name, *text));
  }
  put(stdout,
      base::printable_lines(fmt::format("\n{0}/{1}, {0}/{2}, {0}/{3}\n", folder, kTable, kNumbers, kPage)));
  return absl::OkStatus();
}

}  // namespace verbena::apps
