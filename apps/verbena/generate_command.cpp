#include "apps/verbena/generate_command.hpp"

#include <string>

#include "apps/data/output_file.hpp"
#include "apps/verbena/exit_status.hpp"
#if __has_include("apps/data/generate_ratings.hpp")
#include "apps/data/generate_ratings.hpp"
#endif
#if __has_include("apps/data/generate_corpus.hpp")
#include "apps/data/generate_corpus.hpp"
#endif

namespace verbena::apps {
namespace {

/// `Options` has add_options(); `generate` writes the file.
template <class Options>
[[maybe_unused]] void add_kind(CLI::App& command, const std::string& name, const std::string& description,
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
    *run = [given, generate] {
      if (absl::Status status = OutputFile::check(given->output); !status.ok()) return report_error(status);
      const absl::Status status = generate(given->options, given->output);
      return status.ok() ? kExitOk : report_error(status);
    };
  });
}

}  // namespace

void add_generate_command([[maybe_unused]] CLI::App& program, [[maybe_unused]] Run* run) {
#if __has_include("apps/data/generate_ratings.hpp") || __has_include("apps/data/generate_corpus.hpp")
  CLI::App* command = program.add_subcommand(
      "generate",
      "write input with a known answer\n\nThe same options and seed give the same file, on every machine.");
  command->require_subcommand(1);
#endif
#if __has_include("apps/data/generate_corpus.hpp")
  add_kind<GenerateCorpusOptions>(*command, "lda", "documents made of known topics", generate_corpus, run);
#endif
#if __has_include("apps/data/generate_ratings.hpp")
  add_kind<GenerateRatingsOptions>(*command, "mf", "ratings of known rank and noise", generate_ratings, run);
#endif
}

}  // namespace verbena::apps
