// `verbena manual FOLDER`: manual pages of all commands, which the build makes and installs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "apps/launcher/job_options.hpp"
#include "apps/options/manual_page.hpp"
#include "apps/program/commands.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/provenance.hpp"

namespace verbena::apps {
namespace {

absl::Status write_pages(const CLI::App& program, const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return absl::ErrnoToStatus(failed.value(), fmt::format("{}: cannot be made", folder.string()));
  for (const ManualPage& page : manual_pages(program, "verbena " + version())) {
    const std::filesystem::path path = folder / page.file;
    errno = 0;
    std::ofstream file(path);
    file << page.text << std::flush;
    if (!file) return absl::ErrnoToStatus(errno, fmt::format("{}: cannot be written", path.string()));
  }
  return absl::OkStatus();
}

}  // namespace

void add_manual_command(CLI::App& program, Run* run) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("manual", "write manual pages of all commands, for `man`");
  command->group("");  // for the build
  command->add_option("FOLDER", *folder, "Where to write them.")->type_name("FOLDER")->required();
  command->footer(examples({"verbena manual pages && man -l pages/verbena-run-lda.1"}));
  command->callback([&program, folder, run] {
    *run = [&program, folder](const job::LaunchLetter&) {
      const absl::Status written = write_pages(program, *folder);
      return written.ok() ? kExitOk : report_error(written);
    };
  });
}

}  // namespace verbena::apps
