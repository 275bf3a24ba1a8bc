#include "apps/ctr/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "apps/ctr/batches.hpp"
#include "apps/ctr/block_parameters.hpp"
#include "apps/data/examples.hpp"
#include "apps/options/numbers.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"
#include "protocol/admission.hpp"
#include "protocol/initial_values.hpp"
#include "protocol/update_rule.hpp"

namespace verbena::apps::ctr {

namespace {

constexpr std::int64_t kMostBatch = 1 << 20;
constexpr std::int64_t kMostBlocks = 4096;
constexpr std::int64_t kMostPasses = 1'000'000;
constexpr std::int64_t kMostMinCount = 255;
constexpr std::uint64_t kLeastMegabytes = 1;  // of a table that is limited: what one lane takes at once
constexpr double kMostNumber = 1e30;          // single precision has room for its square root's and its steps

}  // namespace

Files Options::files() const {
  Files files;
  for (const std::string& path : data) files.reads("--data", path);
  for (const std::string& path : test_data) files.reads("--test-data", path);
  files.reads("--load", load);
  files.reads("--start", start);
  files.writes("--output", output);
  files.writes("--predict", predict);
  return files;
}

void Options::add_to(CLI::App& command) {
  given_.watch(command, [&] { add(command); });
}

void Options::add(CLI::App& command) {
  command
      .add_option(
          "--data", data,
          "examples: LIBSVM, LIBFFM, Criteo's TSV, Avazu's CSV, Vowpal Wabbit, or ratings; gzip of any; "
          "several files, such as days, are read in this order (docs/data.md)")
      ->required()
      ->type_name("FILE");
  command.add_option("--test-data", test_data, "examples for the test, instead of a share of --data")
      ->type_name("FILE");
  add_number(command, "--test-fraction", test_fraction,
             "share of the examples of --data that is not trained, but predicted")
      ->capture_default_str();
  command.add_option("--format", format, "how the examples are written; auto: found out")
      ->capture_default_str()
      ->type_name("auto|libsvm|libffm|criteo|avazu|vw|ratings");
  add_number(command, "--positive", positive, "of ratings: those from this one on are positive")
      ->capture_default_str();
  command
      .add_option(
          "--storage", storage,
          "where the examples are during training: memory; files, for more data than memory: they are "
          "read again in each pass and each test, with the same result")
      ->capture_default_str()
      ->type_name("memory|files");
  command
      .add_option(
          "--solver", solver,
          "how a logistic regression is trained: ftrl, mini-batch by mini-batch; block, to the least of "
          "log loss and --l1, by block proximal gradient")
      ->capture_default_str()
      ->type_name("ftrl|block");
  add_number(command, "--passes", passes,
             "passes over the examples; 0: one, and with --solver block as many as it takes, at most 100")
      ->capture_default_str();
  add_number(command, "--test-every", test_every,
             "passes after which the model is tested; the last one is in any case")
      ->capture_default_str();
  add_number(
      command, "--batch", batch,
      fmt::format("examples that are dealt to the workers in turn; without --solver block, of a mini-batch, "
                  "which is a worker's clock. 0: {}, and with --solver ftrl fewer where a pass would have "
                  "fewer than {} clocks, down to {}",
                  kBatchSize.most, kBatchSize.batches, kBatchSize.least))
      ->capture_default_str();
  add_number(command, "--rank", rank,
             "factors of a feature in a factorization machine; 0: logistic regression")
      ->capture_default_str();
  add_number(
      command, "--blocks", blocks,
      "of --solver block: into how many the features are divided; 0: one for each slot, at most 64, or 16 "
      "if there are no slots")
      ->capture_default_str();
  add_number(
      command, "--kkt", kkt_ratio,
      "of --solver block: features whose weights will hardly leave 0 soon are left out, fewer if this is "
      "larger; 0: none")
      ->capture_default_str();
  add_number(command, "--tolerance", tolerance,
             "of --solver block: training ends when a pass makes the objective less by a smaller share")
      ->capture_default_str();
  add_number(command, "--alpha", alpha, "of FTRL: how fast weights are learnt")->capture_default_str();
  add_number(command, "--beta", beta, "of FTRL: larger: slower at first")->capture_default_str();
  add_number(
      command, "--l1", l1,
      "larger: more weights are 0; with --solver block, how much a weight costs [default: 0, and 1 with "
      "--solver block]");
  add_number(command, "--l2", l2, "of FTRL: larger: smaller weights")->capture_default_str();
  add_number(command, "--factor-rate", factor_rate, "learning rate of the factors, by Adagrad")
      ->capture_default_str();
  add_number(command, "--factor-deviation", factor_deviation, "standard deviation of what factors begin as")
      ->capture_default_str();
  add_number(command, "--factor-regularization", factor_regularization,
             "half of it times the factors' squares is added to the loss for each use of a feature")
      ->capture_default_str();
  add_number(command, "--min-count", min_count,
             "a feature gets a weight with so many mini-batches that have it; before it counts as 0")
      ->capture_default_str();
  add_number(command, "--factor-min-count", factor_min_count,
             "the same for its factors, which it gets no sooner than its weight")
      ->capture_default_str();
  command
      .add_option(
          "--admission", admission,
          "when a feature gets its weight and factors, instead of --min-count and --factor-min-count: "
          "always, count(least=2) (mini-batches that have it), probability(p=0.1) (with each mini-batch that "
          "has it; docs/sparse.md)")
      ->type_name("ADMISSION");
  command
      .add_option(
          "--eviction", eviction,
          "when a feature loses its weight and factors again: never, age(clocks=1000) (mini-batches "
          "without it), count(least=1,half_life=1000), norm(least=0.001,clocks=100), lru(most_mb=1000); "
          "each with most_mb, 1 or more, for each of the two tables; --baseline has none (docs/sparse.md)")
      ->capture_default_str()
      ->type_name("EVICTION");
  command
      .add_option("--filter", filter,
                  "which gradients of a mini-batch wait for those of later ones: none, significant(least=1), "
                  "top(share=0.1), random(share=0.5), bf16, int8, significant+int8; --baseline has none "
                  "(docs/consistency.md)")
      ->capture_default_str()
      ->type_name("FILTER");
  command
      .add_option("--encoding", encoding,
                  "in which bytes gradients travel: auto, records, packed, packed(lists=1000000) for several "
                  "passes, or packed(zstd=1) for slow networks; --baseline sends none (docs/sparse.md)")
      ->capture_default_str()
      ->type_name("ENCODING");
  add_number(command, "--seed", seed, "of the first factors and of the examples for the test")
      ->capture_default_str();
  command.add_option("--output", output, "save the model, as text")->type_name("FILE");
  command.add_option("--start", start, "train on from a model that --output has saved, of the same --rank")
      ->type_name("FILE");
  command
      .add_option("--load", load, "a model that --output has saved: nothing is trained, --data is the test")
      ->type_name("FILE");
  command
      .add_option(
          "--predict", predict,
          "write the probability that it is positive for each example of --test-data (with --load: of "
          "--data), one a line; labels are needed there, too")
      ->type_name("FILE");
}

absl::Status Options::check() const {
  RETURN_IF_ERROR(check_values());
  RETURN_IF_ERROR(check_rules());
  return check_together();
}

absl::Status Options::check_values() const {
  const auto invalid = [](std::string_view expected, auto found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  if (const absl::Status known = parse_example_format(format).status(); !known.ok())
    return absl::InvalidArgumentError(fmt::format("--format: {}", std::string(known.message())));
  if (!(test_fraction >= 0 && test_fraction < 1))
    return invalid("--test-fraction: expected 0 or more and less than 1", test_fraction);
  if (!std::isfinite(positive)) return invalid("--positive: expected a number", positive);
  if (solver != kFtrlSolver && solver != kBlockSolver)
    return invalid("--solver: expected ftrl or block", solver);
  if (storage != kInMemory && storage != kInFiles)
    return invalid("--storage: expected memory or files", storage);
  if (!(alpha > 0 && alpha <= kMostNumber))
    return invalid(fmt::format("--alpha: expected more than 0 and at most {}", kMostNumber), alpha);
  struct Whole {
    std::string_view name;
    std::int64_t value;
    std::int64_t least;
    std::int64_t most;
  };
  for (const auto& [name, value, least, most] :
       {Whole{"--passes", passes, 0, kMostPasses}, Whole{"--batch", batch, 0, kMostBatch},
        Whole{"--rank", rank, 0, kMostRank}, Whole{"--blocks", blocks, 0, kMostBlocks},
        Whole{"--min-count", min_count, 1, kMostMinCount},
        Whole{"--factor-min-count", factor_min_count, 1, kMostMinCount}}) {
    if (value < least || value > most)
      return invalid(fmt::format("{}: expected {} to {}", name, least, most), value);
  }
  if (test_every < 1) return invalid("--test-every: expected 1 or more", test_every);
  for (const auto& [name, value] :
       {std::pair("--beta", beta), std::pair("--l1", chosen_l1()), std::pair("--l2", l2),
        std::pair("--kkt", kkt_ratio), std::pair("--tolerance", tolerance),
        std::pair("--factor-rate", factor_rate), std::pair("--factor-deviation", factor_deviation),
        std::pair("--factor-regularization", factor_regularization)}) {
    if (!(value >= 0 && value <= kMostNumber))
      return invalid(fmt::format("{}: expected 0 to {}", name, kMostNumber), value);
  }
  return absl::OkStatus();
}

/// What the tables will find wrong.
absl::Status Options::check_rules() const {
  RETURN_IF_ERROR(protocol::FilterRule::find(filter).status());
  if (!admission.empty()) RETURN_IF_ERROR(protocol::AdmissionRule::find(admission, seed).status());
  const absl::StatusOr<protocol::EvictionRule> rows_go = protocol::EvictionRule::find(eviction);
  if (!rows_go.ok()) return rows_go.status();
  if (rows_go->most_bytes() > 0 && rows_go->most_bytes() < kLeastMegabytes * 1'000'000) {
    return absl::InvalidArgumentError(fmt::format(
        "--eviction: expected most_mb to be {} or more, or nearly no feature gets a weight, found {}",
        kLeastMegabytes, eviction));
  }
  RETURN_IF_ERROR(protocol::PushEncoding::find(encoding).status());
  for (const std::string& rule : {rules().weights, rules().factors}) {
    const auto found = protocol::UpdateRule::find(
        rule, ValueType::kFloat, static_cast<std::uint32_t>(std::max(rank, std::int64_t{kPair})));
    RETURN_IF_ERROR(found.status());
  }
  return protocol::InitialValues::find(rules().initial_factors, seed, ValueType::kFloat).status();
}

absl::Status Options::check_together() const {
  RETURN_IF_ERROR(given_.refuse_idle([&](std::string_view option) { return why_idle(option); }));
  if (has_blocks() && chosen_l1() == 0) {
    return absl::InvalidArgumentError(
        "--l1: expected more than 0 with --solver block, or there may be no least objective");
  }
  for (const auto& [name, is_usual] :
       {std::pair("--rank", rank == 0), std::pair("--min-count", min_count == 1),
        std::pair("--admission", admission.empty()),
        std::pair("--eviction", eviction == protocol::kEvictNever),
        std::pair("--filter", filter == protocol::kNoFilter), std::pair("--l2", l2 == 0)}) {
    if (has_blocks() && !is_usual) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: --solver block trains a logistic regression with --l1, and has no other choice", name));
    }
  }
  if (has_blocks() && streams())
    return absl::InvalidArgumentError("--storage: expected memory with --solver block, found files");
  if (!predict.empty() && trains() && test_data.empty()) {
    return absl::InvalidArgumentError(
        "--predict: expected --test-data, whose examples are predicted, or --load, which predicts --data");
  }
  return absl::OkStatus();
}

/// Why an option does nothing beside the others; empty: it does something.
std::string_view Options::why_idle(std::string_view option) const {
  const auto is_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), option) != names.end();
  };
  if (!trains() && !is_of({"data", "format", "positive", "load", "predict"}))
    return "expected only without --load, which trains nothing and tests on --data";
  if (!has_blocks() && is_of({"blocks", "kkt", "tolerance"})) return "expected only with --solver block";
  if (has_blocks() && is_of({"alpha", "beta"})) return "expected only with --solver ftrl";
  if (!admission.empty() && is_of({"min-count", "factor-min-count"}))
    return "expected only without --admission, which says when a feature gets its weight and factors";
  if (rank == 0 && option.starts_with("factor-"))
    return "expected only with a --rank above 0: without, there are no factors";
  if (!test_data.empty() && test_fraction > 0 && option == "test-fraction")
    return "expected only without --test-data, which is the test";
  if (test_data.empty() && test_fraction == 0 && option == "test-every")
    return "expected only with a test: --test-data, or a --test-fraction above 0";
  return {};
}

absl::Status Options::check_baseline() const {
  struct OfServers {
    std::string_view name;
    std::string_view value;
    std::string_view usual;
  };
  for (const auto& [name, value, usual] : {OfServers{"--filter", filter, protocol::kNoFilter},
                                           OfServers{"--eviction", eviction, protocol::kEvictNever},
                                           OfServers{"--encoding", encoding, protocol::kUsualEncoding}}) {
    if (value != usual) {
      return absl::InvalidArgumentError(
          fmt::format("{}: expected {} with --baseline, which has no other, found {}", name, usual, value));
    }
  }
  return absl::OkStatus();
}

Rules Options::rules() const {
  return {.weights = has_blocks()
                         ? fmt::format("proximal(l1={})", chosen_l1())
                         : fmt::format("ftrl(alpha={},beta={},l1={},l2={})", alpha, beta, chosen_l1(), l2),
          .factors = fmt::format("adagrad(rate={},initial=1)", factor_rate),
          .initial_factors = fmt::format("normal(deviation={})", factor_deviation),
          .rank = static_cast<std::uint32_t>(rank),
          .seed = seed,
          .weight_admission = admission.empty() ? fmt::format("count(least={})", min_count) : admission,
          .factor_admission = admission.empty()
                                  ? fmt::format("count(least={})", std::max(min_count, factor_min_count))
                                  : admission,
          .eviction = eviction,
          .filter = filter,
          .encoding = encoding};
}

std::string_view Options::what_needs_less_memory() const {
  if (!trains()) return "a smaller model";
  if (has_blocks()) return "fewer examples";
  if (streams()) return rank > 0 ? "fewer features or a smaller --rank" : "fewer features";
  return rank > 0 ? "fewer examples, --storage files or a smaller --rank"
                  : "fewer examples or --storage files";
}

std::int64_t Options::chosen_passes() const {
  constexpr std::int64_t kMostBlockPasses = 100;
  if (passes > 0) return passes;
  return has_blocks() ? kMostBlockPasses : 1;
}

double Options::chosen_l1() const {
  return l1.value_or(has_blocks() ? 1 : 0);
}

std::optional<std::uint64_t> Options::batch_examples() const {
  if (batch > 0) return static_cast<std::uint64_t>(batch);
  if (saved_batch_) return saved_batch_;
  return has_blocks() ? std::optional(kDealtToBlocks) : std::nullopt;
}

void Options::goes_on_from(const std::map<std::string, std::string>& notes) {
  const auto note = notes.find(kBatchNote);
  if (note == notes.end()) return;
  const auto saved = base::parse_decimal<std::int64_t>(note->second);
  if (saved && *saved > 0 && *saved <= kMostBatch) saved_batch_ = static_cast<std::uint64_t>(*saved);
}

std::optional<std::string> Options::chosen(std::string_view option) const {
  if (!why_idle(option).empty()) return "";
  if (option == "batch" && leaves_open(option) && batch_examples()) return std::to_string(*batch_examples());
  if (option == "passes") return std::to_string(chosen_passes());
  if (option == "l1") return fmt::format("{}", chosen_l1());
  return std::nullopt;
}

bool Options::leaves_open(std::string_view option) const {
  return (option == "blocks" && blocks == 0) || (option == "batch" && batch == 0);
}

}  // namespace verbena::apps::ctr
