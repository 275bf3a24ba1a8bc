#include "apps/peers/peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "apps/data/corpus.hpp"
#include "apps/data/examples.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/ratings.hpp"
#include "apps/peers/program.hpp"
#include "apps/word2vec/usual_options.hpp"
#include "apps/word2vec/vector_judge.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

std::vector<std::string> words_of(std::string_view line) {
  return absl::StrSplit(absl::string_view(line.data(), line.size()), ' ', absl::SkipEmpty());
}

class Libmf final : public Peer {
 public:
  [[nodiscard]] std::string_view name() const override { return "LIBMF"; }
  [[nodiscard]] std::string_view program() const override { return "mf-train"; }
  [[nodiscard]] std::string_view application() const override { return "mf"; }
  [[nodiscard]] std::string_view objective() const override { return "test_rmse"; }
  [[nodiscard]] std::vector<std::string> files(const std::string& folder) const override {
    return {folder + "/libmf-train.txt", folder + "/libmf-test.txt", folder + "/libmf-model.txt"};
  }
  absl::Status prepare(const std::string& data, std::uint64_t seed, const std::string& folder) override;
  /// Its defaults but for what is said: users have tuned them.
  [[nodiscard]] std::vector<std::string> arguments(const PeerTask& task) const override {
    return {"-k",   std::to_string(task.rank),
            "-t",   std::to_string(task.iterations),
            "-s",   std::to_string(task.threads),
            "-p",   test_,
            train_, model_};
  }
  /// "   3       1.0686       1.0697   1.3963e+06": the iteration from 0, and the errors of training and
  /// test.
  [[nodiscard]] std::optional<PeerIteration> read(std::string_view line, const PeerTask& /*task*/,
                                                  double seconds) const override {
    const std::vector<std::string> words = words_of(line);
    PeerIteration found{.items = ratings_, .seconds = seconds};
    double test_error = 0;
    if (words.size() < 3 || !absl::SimpleAtoi(words[0], &found.iteration) ||
        !absl::SimpleAtod(words[2], &test_error))
      return std::nullopt;
    ++found.iteration;
    found.objective = test_error;
    return found;
  }

 private:
  std::string train_;
  std::string test_;
  std::string model_;
  double ratings_ = 0;
};

absl::Status Libmf::prepare(const std::string& data, std::uint64_t seed, const std::string& folder) {
  const absl::StatusOr<Ratings> ratings = read_ratings({.path = data, .seed = seed});
  if (!ratings.ok()) return ratings.status();
  const std::vector<std::string> files = this->files(folder);
  train_ = files[0];
  test_ = files[1];
  model_ = files[2];
  ratings_ = static_cast<double>(ratings->train.size());
  for (const auto& [path, part] : {std::pair(train_, &ratings->train), {test_, &ratings->test}}) {
    absl::StatusOr<OutputFile> file = OutputFile::create(path);
    if (!file.ok()) return file.status();
    for (const Rating& rating : *part)
      file->write(fmt::format("{} {} {}\n", rating.user, rating.item, rating.value));
    RETURN_IF_ERROR(file->commit());
  }
  return absl::OkStatus();
}

class FastText final : public Peer {
 public:
  [[nodiscard]] std::string_view name() const override { return "fastText"; }
  [[nodiscard]] std::string_view program() const override { return "fasttext"; }
  [[nodiscard]] std::string_view application() const override { return "word2vec"; }
  [[nodiscard]] std::string_view objective() const override { return "held_out_mrr"; }
  [[nodiscard]] std::vector<std::string> files(const std::string& folder) const override {
    const std::string model = folder + "/fasttext-model";
    return {folder + "/fasttext.txt", model + ".bin", model + kInputs, model + kOutputs};
  }
  absl::Status prepare(const std::string& data, std::uint64_t seed, const std::string& folder) override;
  /// As our word2vec by default, and without subwords. Of the text no word is left out: prepare() has done
  /// that.
  [[nodiscard]] std::vector<std::string> arguments(const PeerTask& task) const override {
    return {"skipgram",
            "-input",
            text_,
            "-output",
            model_,
            "-epoch",
            std::to_string(task.iterations),
            "-thread",
            std::to_string(task.threads),
            "-dim",
            std::to_string(word2vec::usual::kDimension),
            "-ws",
            std::to_string(word2vec::usual::kWindow),
            "-neg",
            std::to_string(word2vec::usual::kNegatives),
            "-minCount",
            "1",
            "-minn",
            "0",
            "-maxn",
            "0",
            "-t",
            fmt::format("{}", word2vec::usual::kSubsample),
            "-lr",
            fmt::format("{}", word2vec::usual::kLearningRate),
            "-verbose",
            "2",
            "-saveOutput"};
  }
  /// "Progress: 100.0% words/sec/thread:  180113 lr: …", of which the last one counts.
  [[nodiscard]] std::optional<PeerIteration> read(std::string_view line, const PeerTask& task,
                                                  double /*seconds*/) const override {
    const std::vector<std::string> words = words_of(line);
    double speed = 0;
    if (words.size() < 4 || words[0] != "Progress:" || words[1] != "100.0%" ||
        words[2] != "words/sec/thread:" || !absl::SimpleAtod(words[3], &speed) || speed <= 0)
      return std::nullopt;
    const double items = words_ * static_cast<double>(task.iterations);
    return PeerIteration{
        .iteration = task.iterations, .items = items, .seconds = items / (speed * task.threads)};
  }
  [[nodiscard]] absl::StatusOr<std::optional<double>> objective_of_model() const override {
    const absl::StatusOr<double> found = judge_->held_out_mrr(model_ + kInputs, model_ + kOutputs);
    if (!found.ok()) return found.status();
    return *found;
  }

 private:
  // The endings of what it writes: words' own vectors, and those by which they are found beside others.
  static constexpr const char* kInputs = ".vec";
  static constexpr const char* kOutputs = ".output";

  std::string text_;
  std::string model_;
  std::optional<word2vec::VectorJudge> judge_;
  double words_ = 0;
};

absl::Status FastText::prepare(const std::string& data, std::uint64_t seed, const std::string& folder) {
  absl::StatusOr<word2vec::VectorJudge> judge = word2vec::VectorJudge::read(data, seed);
  if (!judge.ok()) return judge.status();
  judge_ = *std::move(judge);
  text_ = files(folder)[0];
  model_ = folder + "/fasttext-model";
  std::error_code none;
  for (const char* const ending : {kInputs, kOutputs}) std::filesystem::remove(model_ + ending, none);
  const word2vec::Text& train = judge_->train();
  words_ = static_cast<double>(train.words.size());
  absl::StatusOr<OutputFile> file = OutputFile::create(text_);
  if (!file.ok()) return file.status();
  for (std::size_t document = 0; document + 1 < train.begin.size(); ++document) {
    for (std::uint64_t i = train.begin[document]; i < train.begin[document + 1]; ++i) {
      file->write(judge_->words()[train.words[i]]);
      file->write(" ");
    }
    file->write("\n");
  }
  return file->commit();
}

class Liblinear final : public Peer {
 public:
  [[nodiscard]] std::string_view name() const override { return "liblinear"; }
  [[nodiscard]] std::string_view program() const override { return "liblinear-train"; }
  [[nodiscard]] std::string_view application() const override { return "ctr"; }
  [[nodiscard]] std::string_view objective() const override { return "objective"; }
  [[nodiscard]] bool has_threads() const override { return false; }
  [[nodiscard]] std::vector<std::string> files(const std::string& folder) const override {
    return {folder + "/liblinear.txt", folder + "/liblinear-model.txt"};
  }
  absl::Status prepare(const std::string& data, std::uint64_t seed, const std::string& folder) override;
  [[nodiscard]] std::vector<std::string> arguments(const PeerTask& task) const override {
    return arguments_until(fmt::format("{}", task.tolerance));
  }
  /// It looks at its tolerance before the first step, too, and nothing is far from this one.
  [[nodiscard]] std::vector<std::string> reading_arguments() const override {
    return arguments_until("1e12");
  }
  /// "Objective value = 74976.077223", at the end.
  [[nodiscard]] std::optional<PeerIteration> read(std::string_view line, const PeerTask& task,
                                                  double seconds) const override {
    const std::vector<std::string> words = words_of(line);
    double objective = 0;
    if (words.size() != 4 || words[0] != "Objective" || words[1] != "value" ||
        !absl::SimpleAtod(words[3], &objective))
      return std::nullopt;
    return PeerIteration{.iteration = task.iterations, .seconds = seconds, .objective = objective};
  }

 private:
  /// L1 (-s 6), also of the bias (-B), where a loss costs as much as a weight (-c).
  [[nodiscard]] std::vector<std::string> arguments_until(const std::string& tolerance) const {
    return {"-s", "6", "-c", "1", "-B", "1", "-e", tolerance, train_, model_};
  }

  std::string train_;
  std::string model_;
};

/// Trains all examples: nothing is held out.
absl::Status Liblinear::prepare(const std::string& data, std::uint64_t /*seed*/, const std::string& folder) {
  train_ = files(folder)[0];
  model_ = files(folder)[1];
  absl::StatusOr<OutputFile> file = OutputFile::create(train_);
  if (!file.ok()) return file.status();
  absl::flat_hash_map<Key, std::size_t> columns;  // it wants numbers from 1, in their order
  std::vector<std::pair<std::size_t, float>> numbered;
  const absl::StatusOr<ExamplesRead> read =
      read_examples({.paths = {data}}, [&](const Example& example) -> absl::Status {
        if (example.weight != 1) {
          return absl::InvalidArgumentError(
              fmt::format("{}: expected examples without weights, which liblinear does not know", data));
        }
        numbered.clear();
        for (const Feature& feature : example.features) {
          const std::size_t next = columns.size() + 1;
          numbered.emplace_back(columns.try_emplace(feature.key, next).first->second, feature.value);
        }
        std::sort(numbered.begin(), numbered.end());
        file->write(example.is_positive ? "+1" : "-1");
        for (const auto& [column, value] : numbered) file->write(fmt::format(" {}:{}", column, value));
        file->write("\n");
        return file->status();
      });
  return read.ok() ? file->commit() : read.status();
}

class Mallet final : public Peer {
 public:
  [[nodiscard]] std::string_view name() const override { return "MALLET"; }
  [[nodiscard]] std::string_view program() const override { return "mallet"; }
  [[nodiscard]] std::string_view application() const override { return "lda"; }
  [[nodiscard]] std::string_view objective() const override { return "log_likelihood_per_token"; }
  [[nodiscard]] std::vector<std::string> files(const std::string& folder) const override {
    return {folder + "/mallet.txt", folder + "/mallet.bin"};
  }
  absl::Status prepare(const std::string& data, std::uint64_t seed, const std::string& folder) override;
  /// The words are as they are to be.
  [[nodiscard]] std::optional<Import> to_import() const override {
    return Import{.arguments = {"import-file", "--input", text_, "--output", instances_, "--keep-sequence",
                                "--preserve-case", "--token-regex", "\\S+"},
                  .file = instances_};
  }
  /// Its defaults, which are our lda's for 50 topics: its alpha is the sum over all topics.
  [[nodiscard]] std::vector<std::string> arguments(const PeerTask& task) const override {
    const std::int64_t tens = (task.iterations + kIterationsALine - 1) / kIterationsALine;
    return {"train-topics",
            "--input",
            instances_,
            "--num-topics",
            std::to_string(task.rank),
            "--num-threads",
            std::to_string(task.threads),
            "--num-iterations",
            std::to_string(std::max<std::int64_t>(tens, 1) * kIterationsALine),
            "--show-topics-interval",
            "0",
            "--random-seed",
            std::to_string(random_seed_)};
  }
  /// "total tokens: 333000" when all is read, from where training counts; then "<10> LL/token: -8.5" after
  /// each ten iterations.
  [[nodiscard]] std::optional<PeerIteration> read(std::string_view line, const PeerTask& /*task*/,
                                                  double seconds) const override {
    const std::vector<std::string> words = words_of(line);
    if (words.size() == 3 && words[0] == "total" && words[1] == "tokens:") return PeerIteration{};
    PeerIteration found{.items = static_cast<double>(kIterationsALine) * tokens_, .seconds = seconds};
    double likelihood = 0;
    if (words.size() != 3 || words[1] != "LL/token:" || words[0].size() < 3 || words[0].front() != '<' ||
        !absl::SimpleAtoi(absl::string_view(words[0]).substr(1, words[0].size() - 2), &found.iteration) ||
        !absl::SimpleAtod(words[2], &likelihood))
      return std::nullopt;
    found.objective = likelihood;
    return found;
  }

 private:
  static constexpr std::int64_t kIterationsALine = 10;

  std::string text_;
  std::string instances_;
  std::uint64_t random_seed_ = 1;
  double tokens_ = 0;
};

/// A line is a name, a label, and the document.
absl::Status Mallet::prepare(const std::string& data, std::uint64_t seed, const std::string& folder) {
  const absl::StatusOr<Corpus> corpus = read_corpus({.path = data, .stop_words = "english"});
  if (!corpus.ok()) return corpus.status();
  text_ = files(folder)[0];
  instances_ = files(folder)[1];
  constexpr std::uint64_t kSeeds = std::uint64_t{1} << 31;  // it takes an int, and 0 for the time
  random_seed_ = std::max<std::uint64_t>(seed % kSeeds, 1);
  tokens_ = static_cast<double>(corpus->tokens.size());
  std::error_code none;
  std::filesystem::remove(instances_, none);  // of other data
  absl::StatusOr<OutputFile> file = OutputFile::create(text_);
  if (!file.ok()) return file.status();
  for (std::size_t document = 0; document + 1 < corpus->begin.size(); ++document) {
    file->write(fmt::format("{} -", document));
    for (std::uint64_t i = corpus->begin[document]; i < corpus->begin[document + 1]; ++i)
      file->write(" " + corpus->vocabulary[corpus->tokens[i]]);
    file->write("\n");
  }
  return file->commit();
}

/// Runs the program and calls `on_iteration` for what it says. Of the first iteration's time so much is left
/// out.
absl::Status run_program(const Peer& peer, const std::vector<std::string>& command, const PeerTask& task,
                         double seconds_left_out,
                         absl::FunctionRef<void(const PeerIteration&)> on_iteration) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::milliseconds(100);
  const absl::StatusOr<std::unique_ptr<Program>> started = Program::start(command);
  if (!started.ok()) return started.status();
  std::size_t read = 0;
  bool any = false;
  Clock::time_point before = Clock::now();
  for (bool runs = true; runs;) {
    runs = (*started)->read(kPatience);
    const std::string& output = (*started)->output();
    for (std::size_t end = 0; (end = output.find_first_of("\r\n", read)) != std::string::npos;
         read = end + 1) {
      const Clock::time_point now = Clock::now();
      const double seconds = std::chrono::duration<double>(now - before).count() - seconds_left_out;
      const auto iteration =
          peer.read(std::string_view(output).substr(read, end - read), task, std::max(seconds, 0.0));
      if (!iteration) continue;
      before = now;
      seconds_left_out = 0;
      any = true;
      on_iteration(*iteration);
    }
  }
  RETURN_IF_ERROR((*started)->wait(std::chrono::seconds(10)));
  if (any) return absl::OkStatus();
  return absl::UnknownError(fmt::format("{}: nothing that it printed is known here", command.front()));
}

}  // namespace

std::unique_ptr<Peer> make_libmf() {
  return std::make_unique<Libmf>();
}
std::unique_ptr<Peer> make_fasttext() {
  return std::make_unique<FastText>();
}
std::unique_ptr<Peer> make_liblinear() {
  return std::make_unique<Liblinear>();
}

std::unique_ptr<Peer> make_mallet() {
  return std::make_unique<Mallet>();
}

std::vector<std::shared_ptr<Peer>> make_peers() {
  return {make_libmf(), make_mallet(), make_fasttext(), make_liblinear()};
}

namespace {

absl::Status import_data(const Peer::Import& with, const std::string& program) {
  constexpr auto kPatience = std::chrono::minutes(10);
  std::error_code none;
  if (std::filesystem::exists(with.file, none)) return absl::OkStatus();
  std::vector<std::string> command = with.arguments;
  command.insert(command.begin(), program);
  const absl::StatusOr<std::unique_ptr<Program>> started = Program::start(command);
  if (!started.ok()) return started.status();
  absl::Status ended = (*started)->wait(kPatience);
  if (!ended.ok()) std::filesystem::remove(with.file, none);  // it may be half of it
  return ended;
}

}  // namespace

absl::Status run_peer(const Peer& peer, const std::string& program, const PeerTask& task,
                      absl::FunctionRef<void(const PeerIteration&)> on_iteration) {
  if (const std::optional<Peer::Import> with = peer.to_import()) RETURN_IF_ERROR(import_data(*with, program));
  const auto command = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program);
    return arguments;
  };
  constexpr int kTimesRead = 3;  // one that was disturbed would make training look short
  std::optional<double> reading_seconds;
  const std::vector<std::string> only_read = peer.reading_arguments();
  for (int time = 0; time < kTimesRead && !only_read.empty(); ++time) {
    RETURN_IF_ERROR(run_program(peer, command(only_read), task, 0, [&](const PeerIteration& said) {
      reading_seconds = std::min(said.seconds, reading_seconds.value_or(said.seconds));
    }));
  }
  std::optional<PeerIteration> last;  // held back, since the model is written after it
  RETURN_IF_ERROR(run_program(peer, command(peer.arguments(task)), task, reading_seconds.value_or(0),
                              [&](const PeerIteration& said) {
                                if (last) on_iteration(*last);
                                last = said;
                              }));
  const absl::StatusOr<std::optional<double>> objective = peer.objective_of_model();
  if (!objective.ok()) return objective.status();
  if (*objective) last->objective = *objective;
  on_iteration(*last);
  return absl::OkStatus();
}

}  // namespace verbena::apps
