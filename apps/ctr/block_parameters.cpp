#include "apps/ctr/block_parameters.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/initial_values.hpp"

namespace verbena::apps::ctr {

namespace {

constexpr std::string_view kBlockWeights = "ctr.block_weights";
constexpr std::string_view kPasses = "ctr.passes";
constexpr std::uint32_t kPassNumbers = 3;

void take_weights(std::span<const float> pairs, Numbers& parameters) {
  for (std::size_t i = 0; i < parameters.weights.size(); ++i) parameters.weights[i] = pairs[i * kPair];
}

}  // namespace

// ---- in tables

absl::StatusOr<BlockTableParameters> BlockTableParameters::open(Session& session,
                                                                const ConsistencyModel& consistency,
                                                                const Rules& rules, TrainingWatch& watch) {
  BlockTableParameters parameters(session, watch);
  auto weights = session.table<float>({.name = std::string(kBlockWeights),
                                       .key_space = KeySpace::kSparse,
                                       .width = kPair,
                                       .consistency = consistency,
                                       .rule = rules.weights,
                                       .encoding = rules.encoding});
  if (!weights.ok()) return weights.status();
  parameters.weights_ = *weights;
  auto passes = session.table<double>(
      {.name = std::string(kPasses), .rows = session.workers(), .width = kPassNumbers, .consistency = Asp{}});
  if (!passes.ok()) return passes.status();
  parameters.passes_ = *passes;
  // Of a session that goes on from a checkpoint: what this worker has pushed before.
  const std::uint32_t rank = session.rank();
  std::vector<double> pushed(kPassNumbers);
  RETURN_IF_ERROR(parameters.passes_.pull(KeyRange{rank, rank + 1}, pushed));
  parameters.pushed_ = {pushed[0], pushed[1], pushed[2]};
  RETURN_IF_ERROR(parameters.open_scores());
  return parameters;
}

absl::Status BlockTableParameters::gather(PassNumbers& numbers) {
  const std::uint32_t rank = session_.rank();
  const std::vector<double> change = {numbers.log_loss - pushed_.log_loss, numbers.penalty - pushed_.penalty,
                                      numbers.violation - pushed_.violation};
  RETURN_IF_ERROR(passes_.push(KeyRange{rank, rank + 1}, change));
  RETURN_IF_ERROR(session_.barrier());
  std::vector<double> all(std::size_t{session_.workers()} * kPassNumbers);
  RETURN_IF_ERROR(passes_.pull(KeyRange{0, session_.workers()}, all));
  pushed_ = {all[rank * kPassNumbers], all[rank * kPassNumbers + 1], all[rank * kPassNumbers + 2]};
  numbers = {};
  for (std::size_t i = 0; i < all.size(); i += kPassNumbers) {
    numbers.log_loss += all[i];
    numbers.penalty += all[i + 1];
    numbers.violation = std::max(numbers.violation, all[i + 2]);
  }
  // Nobody changes the numbers before all have read them.
  return session_.barrier();
}

absl::Status BlockTableParameters::read(std::span<const Key> keys, Numbers& parameters) {
  pairs_.resize(keys.size() * kPair);
  RETURN_IF_ERROR(weights_.pull(keys, pairs_));
  take_weights(pairs_, parameters);
  return absl::OkStatus();
}

absl::Status BlockTableParameters::start_from(std::span<const Key> keys, const Numbers& parameters) {
  std::vector<double> pairs(keys.size() * kPair);
  for (std::size_t i = 0; i < keys.size(); ++i) pairs[i * kPair] = static_cast<double>(parameters.weights[i]);
  PendingResult call = weights_.call_async("set", keys, pairs);
  RETURN_IF_ERROR(session_.barrier());
  return call.wait();
}

absl::StatusOr<Parameters::MemoryOfTables> BlockTableParameters::memory() {
  const absl::StatusOr<TableMemory> memory = weights_.memory();
  if (!memory.ok()) return memory.status();
  return MemoryOfTables{{std::string(kBlockWeights), *memory}};
}

absl::Status BlockTableParameters::for_each(
    absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) {
  return weights_.scan([&](Key key, std::span<const float> pair) { return use(key, pair[0], {}); });
}

// ---- in this process

BlockLocalParameters::BlockLocalParameters(const Rules& rules)
    : weights_(rules.weights, std::string(protocol::kZeros), rules.seed, kPair,
               std::string(protocol::kAdmitAlways)) {}

absl::Status BlockLocalParameters::read_pairs(std::span<const Key> keys, std::span<float> pairs) {
  weights_.read(keys, pairs);
  return absl::OkStatus();
}

absl::Status BlockLocalParameters::push_pairs(std::span<const Key> keys, std::span<const float> pairs) {
  pairs_.resize(pairs.size());
  weights_.read(keys, pairs_);  // finds the rows
  weights_.step(keys, pairs);
  return absl::OkStatus();
}

absl::Status BlockLocalParameters::read(std::span<const Key> keys, Numbers& parameters) {
  pairs_.resize(keys.size() * kPair);
  weights_.read(keys, pairs_);
  take_weights(pairs_, parameters);
  return absl::OkStatus();
}

absl::Status BlockLocalParameters::start_from(std::span<const Key> keys, const Numbers& parameters) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const float pair[kPair] = {parameters.weights[i], 0};
    weights_.set(keys[i], pair);
  }
  return absl::OkStatus();
}

absl::Status BlockLocalParameters::for_each(
    absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) {
  for (const auto& [key, row] : weights_.rows()) RETURN_IF_ERROR(use(key, weights_.row(key)[0], {}));
  return absl::OkStatus();
}

}  // namespace verbena::apps::ctr
