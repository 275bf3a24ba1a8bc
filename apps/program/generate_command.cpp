#include "apps/program/generate_command.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/data/generate_clicks.hpp"
#include "apps/data/generate_corpus.hpp"
#include "apps/data/generate_ratings.hpp"
#include "apps/data/output_file.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/format.hpp"
#include "base/printable.hpp"
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

bool is_standard_output(const std::string& path) {
  struct stat named = {};
  struct stat output = {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 &&
         named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

/// Says what the best model would reach, too, which the files do not tell; on standard error if the examples
/// go to standard output.
absl::Status generate_clicks_and_say(const GenerateClicksOptions& options, const std::string& path) {
  const absl::StatusOr<std::vector<KnownTruth>> truths = generate_clicks(options, path);
  if (!truths.ok()) return truths.status();
  for (const KnownTruth& truth : *truths) {
    put(is_standard_output(truth.path) ? stderr : stdout,
        fmt::format("{}: {} examples, {} positive; the best possible: AUC {}, log loss {:.4f}\n",
                    base::printable(truth.path), format_count(static_cast<double>(truth.examples)),
                    format_share(truth.positive_share),
                    truth.auc ? fmt::format("{:.4f}", *truth.auc) : "none", truth.log_loss));
  }
  return absl::OkStatus();
}

}  // namespace

void add_generate_command(CLI::App& program, Run* run) {
  CLI::App* command = program.add_subcommand(
      "generate",
      "write input with a known answer\n\nThe same options and seed give the same file, on every machine.");
  command->require_subcommand(1);
  add_kind<GenerateClicksOptions>(*command, "ctr", "clicks whose probabilities are known",
                                  generate_clicks_and_say, run);
  add_kind<GenerateCorpusOptions>(*command, "lda", "documents made of known topics", generate_corpus, run);
  add_kind<GenerateRatingsOptions>(*command, "mf", "ratings of known rank and noise", generate_ratings, run);
}

}  // namespace verbena::apps
