// Tokens a second of the plain loop, by the number of topics, after it has settled.
//
//   lda_benchmark [--benchmark_filter=…] FILE
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>

#include "apps/data/corpus.hpp"
#include "apps/lda/trainer.hpp"

namespace {

using namespace verbena::apps;
using namespace verbena::apps::lda;

constexpr int kWarmUpIterations = 20;

void train(benchmark::State& state, const std::string& path) {
  absl::StatusOr<Corpus> corpus = read_corpus({.path = path});
  if (!corpus.ok()) return state.SkipWithError(corpus.status().ToString().c_str());
  const auto topics = static_cast<std::size_t>(state.range(0));
  const TrainingOptions options;
  Random random = random_stream(options.seed, 0);
  TrainingData data = lay_out(*corpus, {.topics = topics}, random);
  LocalCounts counts(corpus->vocabulary.size(), topics);
  Trainer trainer(options, corpus->vocabulary.size(), {}, random, data, counts);
  const std::atomic<bool> stop = false;
  absl::Status status = trainer.count_topics();
  for (int i = 0; i < kWarmUpIterations; ++i) status.Update(trainer.train(1, stop).status());
  for (auto iteration : state) status.Update(trainer.train(1, stop).status());
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(data.topics.size()));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s [--benchmark_…] FILE, a corpus\n", argv[0]);
    return 2;
  }
  const std::string path = argv[1];
  benchmark::RegisterBenchmark("train", [&](benchmark::State& state) { train(state, path); })
      ->ArgName("topics")
      ->Arg(50)
      ->Arg(100)
      ->Arg(500)
      ->Arg(1000)
      ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
