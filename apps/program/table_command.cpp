#include "apps/program/table_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/data/feature_keys.hpp"
#include "apps/data/output_file.hpp"
#include "apps/inspect/table_views.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/options/manual_formatter.hpp"
#include "apps/options/numbers.hpp"
#include "apps/program/job_choice.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/format.hpp"
#include "apps/report/terminal.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"
#include "job/child_message.hpp"
#include <verbena/observer.hpp>

namespace verbena::apps {
namespace {

using inspect::SeenRow;

/// Which job is looked at, and how the answer is shown.
struct TableOptionsGiven {
  JobChoice job;
  bool json = false;
  std::vector<std::string> tables;  ///< of stats; none: all
  std::string table;                ///< of the others
  std::vector<Key> keys;
  bool slots = false;
  std::uint32_t count = 10;
  std::string output;

  [[nodiscard]] inspect::KeyText key_text() const {
    return slots ? inspect::KeyText::kSlotAndIndex : inspect::KeyText::kNumber;
  }
};

absl::StatusOr<ObservedTable> the_table(Observer& observer, const TableOptionsGiven& options) {
  absl::StatusOr<std::vector<ObservedTable>> found = inspect::find_tables(observer, {options.table});
  if (!found.ok()) return found.status();
  return std::move(found->front());
}

absl::Status stats(Observer& observer, const TableOptionsGiven& options) {
  const absl::StatusOr<inspect::JobStats> seen = inspect::look_at_job(observer, options.tables);
  if (!seen.ok()) return seen.status();
  put(stdout, options.json ? job::to_line(inspect::to_json(*seen), 2) : inspect::to_text(*seen));
  return absl::OkStatus();
}

/// Shows the rows of the table that `rows_of` finds.
template <class RowsOf>
absl::Status show_rows(Observer& observer, const TableOptionsGiven& options, const RowsOf& rows_of) {
  const absl::StatusOr<ObservedTable> table = the_table(observer, options);
  if (!table.ok()) return table.status();
  const absl::StatusOr<std::vector<SeenRow>> rows = rows_of(*table);
  if (!rows.ok()) return rows.status();
  put(stdout, options.json ? job::to_line(inspect::to_json(*rows, options.key_text()), 2)
                           : inspect::to_text(*table, *rows, options.key_text()));
  return absl::OkStatus();
}

absl::Status top(Observer& observer, const TableOptionsGiven& options) {
  return show_rows(observer, options, [&](const ObservedTable& table) {
    return inspect::largest_rows(observer, table, options.count);
  });
}

absl::Status get(Observer& observer, const TableOptionsGiven& options) {
  return show_rows(observer, options, [&](const ObservedTable& table) {
    return inspect::rows_of(observer, table, options.keys);
  });
}

absl::Status export_table(Observer& observer, const TableOptionsGiven& options) {
  RETURN_IF_ERROR(OutputFile::check(options.output));
  const absl::StatusOr<ObservedTable> table = the_table(observer, options);
  if (!table.ok()) return table.status();
  absl::StatusOr<std::uint64_t> rows = 0;
  {
    StatusLine line(stderr);
    const bool redraws = terminal_use(stderr).redraws;
    rows = inspect::export_rows(
        observer, *table, options.output, options.key_text(), [&](std::uint64_t written) {
          if (redraws) line.show(fmt::format("{} rows written", format_count(static_cast<double>(written))));
        });
  }
  if (!rows.ok()) return rows.status();
  print_error("{} rows of table \"{}\" written to {}\n", *rows, table->options.name, options.output);
  return absl::OkStatus();
}

using Look = absl::Status (*)(Observer&, const TableOptionsGiven&);

absl::Status look_with(Look look, const TableOptionsGiven& options) {
  const absl::StatusOr<ChosenJob> job = choose_job(options.job);
  if (!job.ok()) return job.status();
  const absl::StatusOr<std::unique_ptr<Observer>> observer = observe(*job, job->found.servers);
  return observer.ok() ? look(**observer, options) : observer.status();
}

int look_at_tables(const TableOptionsGiven& options, Look look) {
  absl::Status status = look_with(look, options);
  if (status.ok()) status = flush_output();
  return status.ok() ? kExitOk : report_error(status);
}

/// A subcommand of `table`, with the options that all have.
std::pair<CLI::App*, std::shared_ptr<TableOptionsGiven>> add_look(CLI::App& command, const std::string& name,
                                                                  const std::string& description, Look look,
                                                                  Run* run) {
  CLI::App* app = command.add_subcommand(name, description)->group(kCommands);
  auto options = std::make_shared<TableOptionsGiven>();
  add_job_choice(*app, options->job);
  app->callback([options, look, run] {
    *run = [options, look](const job::LaunchLetter&) { return look_at_tables(*options, look); };
  });
  return {app, options};
}

void add_table_argument(CLI::App& app, TableOptionsGiven& options) {
  app.add_option("TABLE", options.table, "Which table, by its name.")->type_name("NAME")->required();
}

void add_json_option(CLI::App& app, TableOptionsGiven& options) {
  app.add_flag("--json", options.json, "For programs: as JSON.");
}

void add_slots_option(CLI::App& app, TableOptionsGiven& options) {
  app.add_flag("--slots", options.slots, "Show keys as SLOT:INDEX, as features of ctr have them.");
}

/// Turns SLOT:INDEX into the key's number. ctr's bias has the slot after the last one of a feature.
CLI::Validator number_of_slot_and_index() {
  return CLI::Validator(
      [](std::string& text) {
        const std::size_t colon = text.find(':');
        if (colon == std::string::npos) {
          if (base::parse_decimal<std::uint64_t>(text).value_or(kNoKey) < kNoKey) return std::string();
          return fmt::format("a whole number from 0 to {} or SLOT:INDEX is expected, not \"{}\"", kNoKey - 1,
                             text);
        }
        const auto slot = base::parse_decimal<std::uint64_t>(text.substr(0, colon));
        const auto index = base::parse_decimal<std::uint64_t>(text.substr(colon + 1));
        if (!slot || !index || *slot > slot_of(kBeyondFeatures) || *index > kMostIndex) {
          return fmt::format("SLOT:INDEX is expected, a slot up to {} and an index up to {}, not \"{}\"",
                             slot_of(kBeyondFeatures), kMostIndex, text);
        }
        text = std::to_string(feature_key(*slot, *index));
        return std::string();
      },
      "");
}

}  // namespace

void add_table_command(CLI::App& program, Run* run) {
  CLI::App* command = program.add_subcommand(
      "table",
      "look into the tables of a running job\n\nIt asks the servers, which do the work beside their other "
      "work; workers do not notice. Rows are whole, but of no single moment while workers train.");
  command->require_subcommand(1);
  command->footer(examples({"verbena table stats", "verbena table top ctr.weights --count 20 --slots",
                            "verbena table get ctr.weights 3:17 4095:0 --slots",
                            "verbena table export ctr.weights --output weights.txt",
                            "verbena table stats --addresses node1:7001,node2:7001 --secret-file secret"}));

  const auto [of_stats, stats_options] = add_look(
      *command, "stats", "which tables there are, and what they take on the servers, by part", stats, run);
  of_stats->add_option("TABLE", stats_options->tables, "Which tables; by default all.")->type_name("NAME");
  add_json_option(*of_stats, *stats_options);

  const auto [of_top, top_options] =
      add_look(*command, "top", "the rows with the largest norms, with their keys", top, run);
  add_table_argument(*of_top, *top_options);
  add_number(*of_top, "--count", top_options->count, "How many.", {1, kMaxFunctionResults})
      ->type_name("N")
      ->capture_default_str();
  add_slots_option(*of_top, *top_options);
  add_json_option(*of_top, *top_options);

  const auto [of_get, get_options] = add_look(*command, "get", "rows by their keys", get, run);
  add_table_argument(*of_get, *get_options);
  add_number(
      *of_get, "KEY", get_options->keys,
      "Which rows: by numbers, or as SLOT:INDEX, which is the number SLOT · 2⁵² + INDEX. ctr's bias is "
      "4095:0.",
      {0, kNoKey - 1})
      ->transform(number_of_slot_and_index())  // before it is looked at as a number
      ->type_name("N|SLOT:INDEX")
      ->required();
  add_slots_option(*of_get, *get_options);
  add_json_option(*of_get, *get_options);

  const auto [of_export, export_options] =
      add_look(*command, "export", "all rows, one a line: the key, then the values", export_table, run);
  add_table_argument(*of_export, *export_options);
  of_export->add_option("--output", export_options->output, "Where to write.")->type_name("FILE")->required();
  add_slots_option(*of_export, *export_options);
}

}  // namespace verbena::apps
