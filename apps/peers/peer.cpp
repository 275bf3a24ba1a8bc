#include "apps/peers/peer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "apps/data/corpus.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/ratings.hpp"
#include "apps/peers/program.hpp"
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
  [[nodiscard]] std::string_view objective() const override { return ""; }
  [[nodiscard]] std::vector<std::string> files(const std::string& folder) const override {
    return {folder + "/fasttext.txt", folder + "/fasttext-model.bin", folder + "/fasttext-model.vec"};
  }
  absl::Status prepare(const std::string& data, std::uint64_t seed, const std::string& folder) override;
  /// As our word2vec by default: no subwords, 100 dimensions, a window of 5, 5 negative samples.
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
            "100",
            "-ws",
            "5",
            "-neg",
            "5",
            "-minCount",
            "5",
            "-minn",
            "0",
            "-maxn",
            "0",
            "-t",
            "0.0001",
            "-lr",
            "0.05",
            "-verbose",
            "2"};
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

 private:
  std::string text_;
  std::string model_;
  double words_ = 0;
};

absl::Status FastText::prepare(const std::string& data, std::uint64_t /*seed*/, const std::string& folder) {
  const absl::StatusOr<Corpus> corpus = read_corpus({.path = data, .needs_order = true});
  if (!corpus.ok()) return corpus.status();
  text_ = files(folder)[0];
  model_ = folder + "/fasttext-model";
  words_ = static_cast<double>(corpus->tokens.size());
  absl::StatusOr<OutputFile> file = OutputFile::create(text_);
  if (!file.ok()) return file.status();
  for (std::size_t document = 0; document + 1 < corpus->begin.size(); ++document) {
    for (std::uint64_t i = corpus->begin[document]; i < corpus->begin[document + 1]; ++i) {
      file->write(corpus->vocabulary[corpus->tokens[i]]);
      file->write(" ");
    }
    file->write("\n");
  }
  return file->commit();
}

}  // namespace

std::unique_ptr<Peer> make_libmf() {
  return std::make_unique<Libmf>();
}
std::unique_ptr<Peer> make_fasttext() {
  return std::make_unique<FastText>();
}

std::vector<std::shared_ptr<Peer>> make_peers() {
  return {make_libmf(), make_fasttext()};
}

absl::Status run_peer(const Peer& peer, const std::string& program, const PeerTask& task,
                      absl::FunctionRef<void(const PeerIteration&)> on_iteration) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::milliseconds(100);
  std::vector<std::string> command = peer.arguments(task);
  command.insert(command.begin(), program);
  absl::StatusOr<std::unique_ptr<Program>> started = Program::start(command);
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
      const double seconds = std::chrono::duration<double>(now - before).count();
      const auto iteration = peer.read(std::string_view(output).substr(read, end - read), task, seconds);
      if (!iteration) continue;
      before = now;
      any = true;
      on_iteration(*iteration);
    }
  }
  RETURN_IF_ERROR((*started)->wait(std::chrono::seconds(10)));
  if (any) return absl::OkStatus();
  return absl::UnknownError(fmt::format("{}: nothing that it printed is known here", program));
}

}  // namespace verbena::apps
