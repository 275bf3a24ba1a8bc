#include "tests/process/small_training.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "tests/temporary_folder.hpp"

namespace verbena::process_test {

std::ostream& operator<<(std::ostream& out, const SmallTraining& training) {
  return out << training.application;
}

std::vector<SmallTraining> small_trainings() {
  const std::string iterations = std::to_string(kIterationsOfSmallTraining);
  return {
      {"lda", {"--topics", "3", "--top-words", "0", "--iterations", iterations}, {""}},
      {"mf", {"--rank", "4", "--iterations", iterations}, {".users.tsv", ".items.tsv"}},
      {"kge", {"--dimension", "4", "--iterations", iterations}, {".entities.tsv", ".relations.tsv"}},
      {"ctr",
       {"--rank", "2", "--passes", std::to_string(kIterationsOfSmallTraining / 10)},
       {""}},  // ten iterations a pass
  };
}

std::vector<SmallTraining> trainings_of_all_applications() {
  std::vector<SmallTraining> all = small_trainings();
  all.push_back({.application = "word2vec",
                 .options = {"--min-count", "1", "--held-out", "0", "--dimension", "4", "--iterations",
                             std::to_string(kIterationsOfSmallTraining)},
                 .models = {""}});
  all.push_back({.application = "sketch", .options = {}, .models = {""}});
  return all;
}

std::vector<SmallTraining> stateless_trainings() {
  return {
      {"kge",
       {"--dimension", "4", "--iterations", "30", "--allocation", "static", "--clocks-per-iteration", "16"},
       {".entities.tsv", ".relations.tsv"}},
      {"word2vec",
       {"--dimension", "4", "--iterations", "60", "--min-count", "1", "--top-words", "0", "--allocation",
        "static", "--clocks-per-iteration", "4"},
       {""}},
      {"ctr", {"--rank", "2", "--passes", "16", "--batch", "20"}, {""}}};
}

void write_data(const SmallTraining& training, const std::string& path) {
  const std::string& application = training.application;
  std::string text;
  const auto write_triples = [&](const char* name, int first, int step) {
    text.clear();
    for (int i = first; i < 240; i += step)
      text += fmt::format("e{}\tr{}\te{}\n", i % 24, i % 4, (i * i + 3 * i + 1) % 24);
    verbena::testing::write_file(path + "/" + name, text);
  };
  if (application == "kge") {
    std::filesystem::create_directory(path);
    write_triples("train.txt", 0, 1);
    write_triples("valid.txt", 5, 40);
    write_triples("test.txt", 7, 40);
    return;
  }
  for (int i = 0; i < 300; ++i) {
    if (application == "mf") text += fmt::format("{}\t{}\t{}\n", i % 30 + 1, i * 7 % 25 + 1, i * i % 5 + 1);
    if (application == "ctr" || application == "sketch")
      text += fmt::format("{} {}:1 {}:1\n", i % 3 == 0 ? 1 : 0, i % 50 + 1, 51 + i * 7 % 50);
    if (application == "lda" || application == "word2vec")
      text += fmt::format("w{}{}", i % 30 % 3 * 13 + i * 7 % 17, i % 10 == 9 ? '\n' : ' ');
  }
  verbena::testing::write_file(path, text);
}

std::unique_ptr<Program> SmallTrainingTest::start(const std::vector<std::string>& more,
                                                  const std::string& output,
                                                  const std::string& consistency) const {
  const SmallTraining& training = GetParam();
  std::vector<std::string> all = {"run",
                                  training.application,
                                  "--data",
                                  folder_.path("data"),
                                  "--servers",
                                  std::to_string(kServersOfSmallTraining),
                                  "--workers",
                                  "2",
                                  "--consistency",
                                  consistency,
                                  "--slow",
                                  "worker=all,pause=10ms,every=1",
                                  "--output",
                                  folder_.path(output),
                                  "--metrics",
                                  folder_.path("metrics"),
                                  "--checkpoint",
                                  saved(),
                                  "--checkpoint-every",
                                  "1"};
  all.insert(all.end(), training.options.begin(), training.options.end());
  all.insert(all.end(), more.begin(), more.end());
  return std::make_unique<Program>(VERBENA_PROGRAM, all, folder_.path());
}

std::vector<std::string> SmallTrainingTest::model(const std::string& output) const {
  std::vector<std::string> files;
  for (const std::string& end : GetParam().models)
    files.push_back(verbena::testing::contents(folder_.path(output + end)));
  return files;
}

int SmallTrainingTest::tokens(const std::string& output) const {
  std::istringstream words(model(output).front());
  int tokens = 0;
  for (std::string word; std::getline(words, word);) {
    for (std::size_t at = word.find(':'); at != std::string::npos; at = word.find(':', at + 1))
      tokens += std::stoi(word.substr(at + 1));
  }
  return tokens;
}

}  // namespace verbena::process_test
