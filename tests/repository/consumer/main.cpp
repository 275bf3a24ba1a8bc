// Calls functions of each public header, and runs a whole job: one worker, with its server in a thread. That
// the shared library has all of them is for ../exports.py to find out.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <verbena/consistency.hpp>
#include <verbena/data_cursor.hpp>
#include <verbena/observer.hpp>
#include <verbena/server.hpp>
#include <verbena/server_function.hpp>
#include <verbena/session.hpp>
#include <verbena/table.hpp>
#include <verbena/update_rule.hpp>
#include <verbena/verbena.h>

namespace {

struct Maximum {
  static constexpr std::string_view kName = "maximum";
  template <class Value>
  static void combine(Value* update, const Value* later, std::uint32_t width) {
    for (std::uint32_t i = 0; i < width; ++i) update[i] = std::max(update[i], later[i]);
  }
  template <class Value>
  static void apply(Value* row, std::byte* /*state*/, const Value* update, std::uint32_t width) {
    for (std::uint32_t i = 0; i < width; ++i)
      verbena::store_whole(row + i, std::max(row[i], verbena::load_whole(update + i)));
  }
  template <class Value>
  static void predict(Value* row, const Value* update, std::uint32_t width) {
    combine(row, update, width);
  }
};

struct Doubled {
  static constexpr std::string_view kName = "doubled";
  static constexpr bool kChangesRows = true;
  explicit Doubled(const verbena::FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const verbena::FunctionRow& row, const Value* values) {
    const std::vector<Value> twice(values, values + row.width());
    row.push(twice.data());
    sum += 2 * static_cast<double>(twice[0]);
  }
  [[nodiscard]] verbena::FunctionResult result() const { return {.numbers = {sum}}; }
  double sum = 0;
};

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "not so: " << what << '\n';
  std::exit(1);
}

template <class Result>
auto value_of(absl::StatusOr<Result> result) {
  if (!result.ok()) std::cerr << result.status() << '\n';
  require(result.ok(), "a call succeeds");
  return *std::move(result);
}

void require_ok(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << '\n';
  require(status.ok(), "a call succeeds");
}

/// The untyped calls, which bindings for other languages use.
void untyped(verbena::Session& session) {
  const auto table = value_of(session.untyped_table(
      {.name = "untyped", .rows = 4, .width = 1, .consistency = verbena::Asp{}}, verbena::ValueType::kInt32));
  const std::int32_t two = 2;
  require_ok(table.push(verbena::KeyRange{1, 2}, std::as_bytes(std::span(&two, 1))));
  require_ok(table.push_async(verbena::KeyRange{1, 2}, std::as_bytes(std::span(&two, 1))).wait());
  std::int32_t value = 0;
  require_ok(table.pull(verbena::KeyRange{1, 2}, std::as_writable_bytes(std::span(&value, 1))));
  require_ok(table.pull_async(verbena::KeyRange{1, 2}, std::as_writable_bytes(std::span(&value, 1))).wait());
  require(value == 4 && table.rows() == 4 && table.width() == 1, "bytes are values");
  require(table.value_type() == verbena::ValueType::kInt32, "of their type");
}

/// Rows of keys that nobody has counted, functions where they lie, and somebody who only looks.
void sparse(verbena::Session& session, const std::string& server) {
  const auto table = value_of(session.table<double>({.name = "sparse",
                                                     .key_space = verbena::KeySpace::kSparse,
                                                     .width = 2,
                                                     .consistency = verbena::Asp{}}));
  const std::vector<verbena::Key> keys{7, 1'000'000'007};
  require_ok(table.push(keys, std::vector<double>{1, 2, 3, 4}));
  const auto doubled = value_of(table.call_async("doubled", keys).result());
  require(doubled.numbers == std::vector<double>{8}, "a function of one's own");
  std::vector<double> values(4);
  auto places = value_of(table.locate(keys));
  require_ok(table.pull(places, values));
  require(values == std::vector<double>{2, 4, 6, 8}, "it changes rows");
  require(value_of(table.memory()).rows == 2, "two rows take memory");
  const auto observer = value_of(verbena::Observer::connect({.servers = {server}}));
  require(value_of(observer->job()).workers == 1, "an observer knows the job");
  for (const verbena::ObservedTable& seen : value_of(observer->tables())) {
    if (seen.options.name != "sparse") continue;
    require(value_of(observer->call(seen, "norms", verbena::kAllKeys)).numbers[2] == 20, "and its rows");
    require(value_of(observer->memory(seen)).rows == 2, "and what they take");
  }
}

void work(const std::string& server) {
  setenv("VERBENA_SERVERS", server.c_str(), 1);
  const auto session = value_of(verbena::Session::from_environment());
  session->take_over();
  const auto rows =
      value_of(session->table<float>({.name = "rows",
                                      .rows = 10,
                                      .width = 2,
                                      .consistency = value_of(verbena::parse_consistency("essp:1"))}));
  const auto largest =
      value_of(session->table<std::int64_t>({.name = "largest", .rows = 1, .width = 1, .rule = "maximum"}));
  const auto moving = value_of(session->table<double>({.name = "moving",
                                                       .rows = 10,
                                                       .width = 1,
                                                       .consistency = verbena::Sequential{},
                                                       .allocation = verbena::Allocation::kDynamic}));
  verbena::DataCursor cursor(*session, {.examples = 4, .mini_batch = 2});
  std::vector<float> values(4);
  for (auto batch = value_of(cursor.next()); !batch.empty(); batch = value_of(cursor.next()))
    require_ok(rows.push(std::vector<verbena::Key>{3, 4}, std::vector<float>{1, 2, 3, 4}));
  session->report({.iteration = 1, .items = 4, .seconds = 1, .sums = {{"nothing", 0}}});
  require_ok(session->clock());
  require_ok(rows.pull_async(verbena::KeyRange{3, 5}, values).wait());
  require(values == std::vector<float>{2, 4, 6, 8}, "pushes are added");

  std::vector<std::int64_t> largest_value(1);
  for (const std::int64_t each : {5, 7, 6})
    require_ok(largest.push(verbena::KeyRange{0, 1}, std::vector<std::int64_t>{each}));
  require_ok(session->barrier());
  require_ok(largest.pull(verbena::KeyRange{0, 1}, largest_value));
  require(largest_value[0] == 7, "another rule than addition");

  require_ok(moving.localize(verbena::KeyRange{0, 10}).wait());
  require_ok(moving.intent(verbena::KeyRange{0, 10}, 2, 3));
  moving.prefetch(1);
  std::vector<double*> held(10);
  {
    verbena::HeldRows guard = value_of(moving.hold(verbena::KeyRange{0, 10}, held));
    require(held[1] != nullptr && moving.is_here(2), "one's own rows can be held");
    *held[1] = 1.5;
    require_ok(guard.release());
  }
  std::mt19937_64 random(1);
  const auto even = value_of(verbena::KeyDistribution::weighted(0, std::vector<double>{1, 0, 1}));
  const auto sample = value_of(moving.prepare_sample(even, 8, random));
  std::vector<double> sampled(8);
  require_ok(moving.pull_sample(sample, sampled));
  require(even.draw(random) != 1, "weights weigh");
  untyped(*session);
  sparse(*session, server);
  require_ok(session->poll());
  require(session->rank() == 0 && session->workers() == 1 && session->current_clock() == 2,
          "a session knows");
  require_ok(session->limit_lead(1));
  require(session->servers() == 1, "a session knows how many servers there are");
  const verbena::SessionStatistics statistics = session->statistics();
  verbena::StalenessHistogram staleness = rows.staleness();
  staleness.merge(statistics.staleness);
  verbena::DurationHistogram moves = statistics.move_times;
  moves.merge(statistics.move_times);
  moves.add(0.001);
  require(verbena::AliasTable(std::vector<double>{0, 1}).draw(random) == 1, "an alias table draws by weight");
  std::cout << "mean clock differential " << staleness.mean_clock_differential()
            << ", half of all moves within " << moves.quantile_seconds(0.5).value_or(0) << " s, under "
            << to_string(verbena::Essp{1}) << '\n';
}

}  // namespace

int main() {
  require_ok(verbena::register_update_rule<Maximum>());
  require_ok(verbena::register_server_function<Doubled>());
  require(std::string(verbena_version()).find('.') != std::string::npos, "a version has a point");
  const std::string address = "shm:consumer-" + std::to_string(getpid());
  const std::atomic<bool> stop = false;
  absl::Status served;
  std::thread server([&] { served = verbena::run_server({.address = address}, stop); });
  work(address);
  server.join();
  require_ok(served);
  const auto nobody = verbena::Session::connect({.servers = {address}, .timeout_ms = 50});
  require(!nobody.ok(), "nobody listens any more");
  require(
      !verbena::newest_checkpoint("no such folder").ok() && !verbena::read_checkpoint("no such folder").ok(),
      "nothing was saved");
  const auto unused = &verbena::Session::give_up;
  require(unused != nullptr && &verbena_limit_lead != nullptr && &verbena_servers != nullptr, "it is linked");
}
