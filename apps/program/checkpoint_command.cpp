#include "apps/program/checkpoint_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/inspect/checkpoint_export.hpp"
#include "apps/inspect/checkpoint_views.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/options/manual_formatter.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/format.hpp"
#include "apps/report/terminal.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

struct CheckpointOptionsGiven {
  std::string path;
  bool json = false;
  inspect::ExportOptions exported;
};

/// How much of a long reading or writing is done, on a terminal.
class ByteProgress {
 public:
  void show(std::string_view what, std::uint64_t bytes, std::uint64_t all_bytes) {
    // Not more often than somebody could read; small checkpoints need no line.
    static constexpr std::uint64_t kBytesUntilShown = std::uint64_t{32} << 20;
    if (!redraws_ || (bytes >= shown_bytes_ && bytes - shown_bytes_ < kBytesUntilShown)) return;
    shown_bytes_ = bytes;
    line_.show(fmt::format("{}: {}B of {}B", what, format_count(static_cast<double>(bytes)),
                           format_count(static_cast<double>(all_bytes))));
  }

 private:
  StatusLine line_{stderr};
  const bool redraws_ = terminal_use(stderr).redraws;
  std::uint64_t shown_bytes_ = 0;
};

absl::Status list_checkpoints(const CheckpointOptionsGiven& options) {
  const auto seen = inspect::look_at_folder(checkpoint::host_file_system(), options.path);
  if (!seen.ok()) return seen.status();
  put(stdout, options.json ? job::to_line(inspect::to_json(*seen), 2) : inspect::to_text(*seen));
  return absl::OkStatus();
}

absl::Status inspect_checkpoint(const CheckpointOptionsGiven& options) {
  const auto seen = inspect::look_at_checkpoint(checkpoint::host_file_system(), options.path);
  if (!seen.ok()) return seen.status();
  put(stdout, options.json ? job::to_line(inspect::to_json(*seen), 2) : inspect::to_text(*seen));
  return absl::OkStatus();
}

absl::Status verify_checkpoints(const CheckpointOptionsGiven& options) {
  absl::StatusOr<std::vector<inspect::VerifiedCheckpoint>> verified;
  {
    ByteProgress progress;
    verified =
        inspect::verify_checkpoints(checkpoint::host_file_system(), options.path,
                                    [&](const std::string& path, std::uint64_t bytes,
                                        std::uint64_t all_bytes) { progress.show(path, bytes, all_bytes); });
  }
  if (!verified.ok()) return verified.status();
  put(stdout, inspect::to_text(*verified));
  return inspect::check_whole(*verified);
}

absl::Status export_tables(const CheckpointOptionsGiven& options) {
  const inspect::ExportOptions& to = options.exported;
  const std::string& path = to.npy.empty() ? to.safetensors : to.npy;
  absl::StatusOr<inspect::Exported> exported;
  {
    ByteProgress progress;
    exported = inspect::export_checkpoint(
        checkpoint::host_file_system(), options.path, to,
        [&](std::uint64_t bytes, std::uint64_t all_bytes) { progress.show(path, bytes, all_bytes); });
  }
  if (!exported.ok()) return exported.status();
  const std::string what = to.table.empty()
                               ? fmt::format("{} tables", exported->tables)
                               : fmt::format("{} rows of table \"{}\"", exported->rows, to.table);
  const std::string keys = exported->keys_path.empty() ? "" : ", and their keys to " + exported->keys_path;
  print_error("{} written to {}{}\n", what, path, keys);
  return absl::OkStatus();
}

using LookAtCheckpoints = absl::Status (*)(const CheckpointOptionsGiven&);

int look_at_checkpoints(const CheckpointOptionsGiven& options, LookAtCheckpoints look) {
  const absl::Status looked = look(options);
  // What was found to be damaged has been written, too.
  const absl::Status flushed = flush_output();
  const absl::Status& status = looked.ok() ? flushed : looked;
  return status.ok() ? kExitOk : report_error(status);
}

/// A subcommand of `checkpoint`, whose argument is a path.
std::pair<CLI::App*, std::shared_ptr<CheckpointOptionsGiven>> add_checkpoint_look(
    CLI::App& command, const std::string& name, const std::string& description, const std::string& argument,
    const std::string& help, LookAtCheckpoints look, Run* run) {
  CLI::App* app = command.add_subcommand(name, description)->group(kCommands);
  auto options = std::make_shared<CheckpointOptionsGiven>();
  app->add_option(argument, options->path, help)->type_name("FOLDER")->required();
  app->callback([options, look, run] {
    *run = [options, look](const job::LaunchLetter&) { return look_at_checkpoints(*options, look); };
  });
  return {app, options};
}

}  // namespace

void add_checkpoint_command(CLI::App& program, Run* run) {
  CLI::App* command =
      program.add_subcommand("checkpoint",
                             "look into the checkpoints of jobs\n\nA checkpoint is a folder ckpt-CLOCK in a "
                             "folder of them. Where one "
                             "is expected, the folder that they are in stands for the newest.");
  command->require_subcommand(1);
  command->footer(examples({"verbena checkpoint list ckpts", "verbena checkpoint inspect ckpts/ckpt-20",
                            "verbena checkpoint verify ckpts",
                            "verbena checkpoint export ckpts --table ctr.weights --npy weights.npy",
                            "verbena checkpoint export ckpts/ckpt-20 --safetensors model.safetensors"}));

  const std::string one = "Which one: its folder, or the folder of checkpoints for the newest.";
  const auto [of_list, list_options] =
      add_checkpoint_look(*command, "list", "which checkpoints there are in a folder, the newest first",
                          "FOLDER", "The folder of checkpoints.", list_checkpoints, run);
  of_list->add_flag("--json", list_options->json, "For programs: as JSON.");

  const auto [of_inspect, inspect_options] =
      add_checkpoint_look(*command, "inspect", "what a checkpoint holds: tables, parts, notes", "CHECKPOINT",
                          one, inspect_checkpoint, run);
  of_inspect->add_flag("--json", inspect_options->json, "For programs: as JSON.");

  add_checkpoint_look(
      *command, "verify",
      "read every byte and compare the checksums\n\nThe exit status is 1 if something is damaged.",
      "CHECKPOINT", "Which one: its folder, or the folder of checkpoints for all in it.", verify_checkpoints,
      run);

  const auto [of_export, export_options] = add_checkpoint_look(
      *command, "export",
      "tables as arrays that other programs read\n\nA dense table is an array of all its rows; those "
      "that were not saved are zeros. A sparse one is an array of its rows in ascending order of keys, "
      "and one of the keys.",
      "CHECKPOINT", one, export_tables, run);
  inspect::ExportOptions& exported = export_options->exported;
  of_export->add_option("--table", exported.table, "Which table, by its name; by default all.")
      ->type_name("NAME");
  of_export
      ->add_option("--npy", exported.npy,
                   "Write a file for NumPy, of one table. The keys of a sparse table come into a second one: "
                   "w.keys.npy beside w.npy.")
      ->type_name("FILE");
  of_export
      ->add_option("--safetensors", exported.safetensors,
                   "Write tensors: NAME of a dense table, NAME.values and NAME.keys of a sparse one.")
      ->type_name("FILE");
}

}  // namespace verbena::apps
