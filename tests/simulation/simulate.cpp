// Simulates jobs: seed after seed, or one with a trace.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/personality.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>

#include "tests/simulation/job.hpp"

namespace {

using verbena::simulation::JobResult;
using verbena::simulation::Model;

struct Options {
  std::string model = "all";
  std::uint64_t first = 1;
  std::uint64_t seeds = 1000;
  std::optional<std::uint64_t> seed;
  std::uint64_t least_faults = 0;
  bool expect_failure = false;
};

/// So many seeds, one after the other, without one that counts: then the model has none.
constexpr std::uint64_t kMostWithoutOne = 10'000;

/// Whether one has failed; or none with so many faults is found.
bool run_seeds(Model model, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t numbers = 0;
  std::uint64_t faults = 0;
  std::uint64_t counted = 0;
  std::uint64_t last_counted = options.first;
  std::uint64_t seed = options.first;
  for (; counted < options.seeds; ++seed) {
    const JobResult result = verbena::simulation::run_job(model, seed);
    if (result.failure) {
      fmt::print("{}: seed {} fails: {}\n  again, with a trace: simulate --model {} --seed {}\n",
                 to_string(model), seed, *result.failure, to_string(model), seed);
      return true;
    }
    if (result.faults >= options.least_faults) {
      ++counted;
      last_counted = seed;
      numbers += result.numbers_checked;
      faults += result.faults;
    } else if (seed - last_counted >= kMostWithoutOne) {
      fmt::print(stderr, "simulate: --least-faults {}: {} has no seed with so many among the {} after {}\n",
                 options.least_faults, to_string(model), kMostWithoutOne, last_counted);
      return true;
    }
  }
  const double elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}: {} seeds kept all promises, {} numbers read, {} faults, {:.1f} s{}\n", to_string(model),
             counted, numbers, faults, elapsed_s,
             options.least_faults == 0 ? "" : fmt::format(", of {} seeds tried", seed - options.first));
  return false;
}

bool run_one(Model model, std::uint64_t seed) {
  const JobResult result =
      verbena::simulation::run_job(model, seed, [](const std::string& line) { fmt::print("{}\n", line); });
  fmt::print("{} seed {}: {} ({} numbers read, {} steps, digest {:016x})\n", to_string(model), seed,
             result.failure.value_or("all promises kept"), result.numbers_checked, result.steps,
             result.digest);
  return !result.failure;
}

/// Runs this program again, at addresses that are the same each time. The order of a hash table goes by an
/// address, so that a seed would not be one run otherwise. Where that is not allowed, it is not.
void fix_addresses(char** argv) {
  constexpr unsigned long kAsk = 0xffffffff;
  const int now = ::personality(kAsk);
  if (now == -1 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (::personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) == -1) return;
  ::execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  fix_addresses(argv);
  CLI::App app("Simulates whole jobs in virtual time and checks every read against its model's promise.");
  Options options;
  app.add_option("--model", options.model, "which model, or all")->capture_default_str();
  app.add_option("--seeds", options.seeds, "how many seeds of each model")->capture_default_str();
  app.add_option("--first", options.first, "the first of them")->capture_default_str();
  app.add_option("--seed", options.seed, "this one only, with a trace");
  app.add_option("--least-faults", options.least_faults,
                 "seeds of jobs in which fewer faults have happened do not count: others come after them")
      ->capture_default_str();
  app.add_flag("--expect-failure", options.expect_failure, "succeed if a seed fails: for broken variants");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::off);  // refusals and deaths are intended

  std::vector<Model> models(verbena::simulation::kModels.begin(), verbena::simulation::kModels.end());
  if (options.model != "all") {
    const auto model = verbena::simulation::parse_model(options.model);
    if (!model.ok()) {
      fmt::print(stderr, "simulate: {}\n", std::string(model.status().message()));
      return 2;
    }
    models = {*model};
  }
  bool failed = false;
  for (const Model model : models) {
    failed |= options.seed ? !run_one(model, *options.seed) : run_seeds(model, options);
    if (failed && options.expect_failure) break;
  }
  return failed == options.expect_failure ? 0 : 1;
}
