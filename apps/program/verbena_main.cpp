#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/options/manual_formatter.hpp"
#include "apps/options/usage_error.hpp"
#include "apps/program/commands.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/provenance.hpp"
#include "apps/thrown.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

/// The text of a log line, made printable: peers have written some of it.
class PrintableText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string text = base::printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableText>();
  }
};

/// A line of --log-format json.
class JsonLine : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    const std::string line = json_log_line({level.data(), level.size()},
                                           {message.payload.data(), message.payload.size()}, message.time);
    out.append(line.data(), line.data() + line.size());
  }
  [[nodiscard]] std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonLine>(); }
};

std::unique_ptr<spdlog::formatter> text_lines() {
  auto lines = std::make_unique<spdlog::pattern_formatter>();
  lines->add_flag<PrintableText>('*').set_pattern("%H:%M:%S.%e %P %l: %*");
  return lines;
}

void set_up_log(bool verbose, LogFormat format) {
  set_log_format(format);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("verbena"));  // without colours, everywhere
  spdlog::set_formatter(format == LogFormat::kJson ? std::make_unique<JsonLine>() : text_lines());
  spdlog::set_level(verbose ? spdlog::level::info : spdlog::level::warn);
}

[[noreturn]] void on_terminate();

/// If one of the three streams is closed, the next file or socket that is opened would take its place; so
/// /dev/null takes it. Reading finds nothing, and writing fails, as if the stream were still closed.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

/// As the options will say: an error in them is written so, too.
LogFormat log_format_of(const std::vector<std::string_view>& words) {
  constexpr std::string_view kOption = "--log-format";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_next = words[i] == kOption && i + 1 < words.size() && words[i + 1] == "json";
    if (is_next || words[i] == "--log-format=json") return LogFormat::kJson;
  }
  return LogFormat::kText;
}

/// A table that grows has a file for each piece of its memory, and each connection has some.
void open_as_many_files_as_possible() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

void set_up_process(int argc, char** argv) {
  std::set_terminate(on_terminate);
  keep_standard_streams();
  // A reader that goes away and a file that may not grow must be errors of a write, and not kill the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  open_as_many_files_as_possible();
  const std::vector<std::string_view> words(argv, argv + argc);
  const auto has = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  set_up_log(has("-v") || has("--verbose"), log_format_of(words));
}

/// How many of the words belong to `verbena` itself: all, except in "verbena run … -- PROGRAM …" and
/// "verbena complete -- WORD…".
int own_words_of(int argc, char** argv) {
  if (argc < 2 || (std::strcmp(argv[1], "run") != 0 && std::strcmp(argv[1], "complete") != 0)) return argc;
  return static_cast<int>(
      std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; }) - argv);
}

/// Refuses an option with nothing after its "=": CLI11 would take the next word for the value.
absl::Status check_words(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word.starts_with("--") && word.size() > 2 && word.find('=') == word.size() - 1) {
      return absl::InvalidArgumentError(fmt::format("{}: a value is expected after the =", word));
    }
  }
  return absl::OkStatus();
}

/// Refuses an empty value, which no option can use, and a value that begins like an option: it is the next
/// option, and the value before it was forgotten.
CLI::Validator value() {
  return CLI::Validator(
      [](const std::string& text) {
        if (text.empty()) return std::string("a value is expected, not an empty one");
        if (!text.starts_with("--")) return std::string();
        return fmt::format("a value is expected, not the option {} (of a file, write ./{})", text, text);
      },
      "");
}

void expect_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const bool is_flag = option->get_items_expected_max() == 0;
    const bool may_be_bare = option->get_items_expected_min() == 0;
    if (!is_flag && !may_be_bare) option->check(value());
  }
  for (CLI::App* inner : command.get_subcommands([](CLI::App*) { return true; })) expect_values(*inner);
}

/// Parses the command line and shows help or errors. nullopt if `run` is left to do; else the exit status.
std::optional<int> parse(CLI::App& program, int argc, char** argv) {
  if (const absl::Status status = check_words(argc, argv); !status.ok()) return report_error(status);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::string name;
    put(stdout, innermost_command(program, &name).help());
    return kExitOk;
  } catch (const CLI::CallForVersion& version) {
    print_out("{}\n", version.what());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report_error(usage_error(program, error));
  }
  return std::nullopt;
}

/// Checks that the output has arrived, as far as somebody wanted to read it.
int check_output(int status) {
  const absl::Status arrived = flush_output();
  if (arrived.ok() || status != kExitOk) return status;
  report_error(arrived);
  return kExitFailed;
}

/// The last resort for an exception where nothing may throw, or in a thread of a library: prints a line and
/// ends with a status instead of an abort. A terminate without an exception is a broken invariant of our own
/// code.
[[noreturn]] void on_terminate() {
  const std::exception_ptr thrown = std::current_exception();
  if (thrown == nullptr) std::abort();
  try {
    report_error(run_caught([&]() -> absl::Status { std::rethrow_exception(thrown); }));
  } catch (...) {  // nothing was unwound, and no memory was freed
    (void)std::fputs("verbena: error: out of memory\n", stderr);
  }
  ::_exit(kExitFailed);
}

}  // namespace

std::unique_ptr<CLI::App> make_program(const Applications& applications,
                                       const std::vector<AddCommand>& commands, Run* run,
                                       const std::vector<std::string>& program_words) {
  auto made = std::make_unique<CLI::App>(
      "a parameter server on one-sided RDMA\n\nWorkers train one model together: they pull rows of "
      "shared tables from servers and push updates to them.",
      "verbena");
  CLI::App& program = *made;
  program.formatter(std::make_shared<ManualFormatter>());
  program.set_help_flag("-h,--help", "Show this.");
  program.get_help_ptr()->group("General");
  program.set_version_flag("--version", "verbena " + version(), "Show the version.");
  program.get_version_ptr()->group("General");
  program.require_subcommand(1);
  add_run_command(program, applications, run_application, program_words, run);
  add_server_command(program, run);
  add_worker_command(program, applications, run);
  for (const AddCommand& add : commands) add(program, run);
  add_completion_commands(program, program_words, run);
  add_manual_command(program, run);
  add_help_command(program, run);
  expect_values(program);
  return made;
}

int verbena_main(int argc, char** argv, const Applications& applications,
                 const std::vector<AddCommand>& commands) {
  int status = kExitFailed;
  const absl::Status ended = run_caught([&] {
    // What comes after "run … --" belongs to another program, and contains no options of ours.
    const int own_words = own_words_of(argc, argv);
    const std::vector<std::string> program_words(argv + std::min(own_words + 1, argc), argv + argc);
    set_up_process(own_words, argv);
    const absl::StatusOr<job::LaunchLetter> letter = job::take_letter();
    if (!letter.ok()) return letter.status();
    Run run;
    const std::unique_ptr<CLI::App> program = make_program(applications, commands, &run, program_words);
    const std::optional<int> parsed = parse(*program, own_words, argv);
    status = parsed ? *parsed : run(*letter);
    return absl::OkStatus();
  });
  if (!ended.ok()) status = report_error(ended);
  return check_output(status);
}

}  // namespace verbena::apps
