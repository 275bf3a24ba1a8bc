#include "apps/program/generate_command.hpp"

#include <CLI/CLI.hpp>
#include <string>

#include "apps/data/generate_corpus.hpp"
#include "apps/data/generate_ratings.hpp"
#include "apps/data/output_file.hpp"
#include "apps/report/exit_status.hpp"
#include "job/starters.hpp"

namespace verbena::apps {
namespace {

/// `Options` has add_options(); `generate` writes the file.
template <class Options>
void add_kind(CLI::App& command, const std::string& name, const std::string& description,
              absl::Status (*generate)(const Options&, const std::string&), Run* run) {
  struct Given {
    Options options;
    std::string output;
  };
  auto given = std::make_shared<Given>();
  CLI::App* kind = command.add_subcommand(name, description);
  kind->add_option("--output", given->output, "Where to write.")->type_name("FILE")->required();
  given->options.add_options(*kind);
  kind->callback([given, run, generate] {
    *run = [given, generate](const job::LaunchLetter&) {
      absl::Status possible = job::check_started_once();
      if (possible.ok()) possible = OutputFile::check(given->output);
      if (!possible.ok()) return report_error(possible);
      const absl::Status status = generate(given->options, given->output);
      return status.ok() ? kExitOk : report_error(status);
    };
  });
}

}  // namespace

void add_generate_command(CLI::App& program, Run* run) {
  CLI::App* command = program.add_subcommand(
      "generate",
      "write input with a known answer\n\nThe same options and seed give the same file, on every machine.");
  command->require_subcommand(1);
  add_kind<GenerateCorpusOptions>(*command, "lda", "documents made of known topics", generate_corpus, run);
  add_kind<GenerateRatingsOptions>(*command, "mf", "ratings of known rank and noise", generate_ratings, run);
}

}  // namespace verbena::apps
