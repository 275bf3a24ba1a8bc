#include "tests/simulation/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "consistency/model.hpp"

namespace verbena::simulation {

using std::chrono::microseconds;

absl::StatusOr<Model> parse_model(std::string_view name) {
  std::string all;
  for (const Model model : kModels) {
    if (to_string(model) == name) return model;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", to_string(model));
  }
  return absl::InvalidArgumentError(fmt::format("model \"{}\": expected one of {}", name, all));
}

std::string_view to_string(Model model) {
  switch (model) {
    case Model::kBsp:
      return "bsp";
    case Model::kSsp:
      return "ssp";
    case Model::kABsp:
      return "a-bsp";
    case Model::kEssp:
      return "essp";
    case Model::kBoundedDelay:
      return "bounded-delay";
    case Model::kAsp:
      return "asp";
    case Model::kSequential:
      return "sequential";
    case Model::kMoving:
      return "moving";
    case Model::kIntent:
      return "intent";
    case Model::kDeath:
      return "death";
    case Model::kTrouble:
      return "trouble";
    case Model::kChurn:
      return "churn";
    case Model::kRows:
      return "rows";
    case Model::kCheckpoints:
      return "checkpoints";
    case Model::kFailover:
      return "failover";
    case Model::kRepair:
      return "repair";
    case Model::kReplacement:
      return "replacement";
    case Model::kMending:
      return "mending";
    case Model::kHosts:
      return "hosts";
    case Model::kRejoin:
      return "rejoin";
    case Model::kRemoteReplacement:
      return "remote-replacement";
    case Model::kMoves:
      return "moves";
    case Model::kHomes:
      return "homes";
    case Model::kBackup:
      return "backup";
    case Model::kSavedReplacement:
      return "saved-replacement";
    case Model::kVap:
      break;
  }
  return "vap";
}

std::string test_name(Model model) {
  std::string name(to_string(model));
  std::erase(name, '-');
  return name;
}

namespace {

/// Mostly small, now and then up to `most`.
std::uint64_t small(std::mt19937_64& random, std::uint64_t most) {
  return below(random, 1 + below(random, most + 1));
}

ConsistencyModel with_staleness(Model model, std::mt19937_64& random) {
  const auto staleness = static_cast<std::uint32_t>(below(random, 4));
  switch (model) {
    case Model::kBsp:
      return Bsp{};
    case Model::kSsp:
      return Ssp{staleness};
    case Model::kABsp:
      return ABsp{staleness % 2 == 0 ? Updates::kSums : Updates::kMeans};
    case Model::kEssp:
      return Essp{staleness};
    case Model::kBoundedDelay:
      return BoundedDelay{staleness};
    case Model::kAsp:
      return Asp{};
    case Model::kSequential:
    case Model::kMoving:
    case Model::kDeath:
      return Sequential{};
    case Model::kIntent:
      if (staleness == 0) return Sequential{};
      return Asp{};
    case Model::kTrouble:
    case Model::kChurn:
    case Model::kRows:
    case Model::kCheckpoints:
    case Model::kFailover:
    case Model::kRepair:
    case Model::kReplacement:
    case Model::kMending:
    case Model::kHosts:
    case Model::kRejoin:
    case Model::kRemoteReplacement:
    case Model::kMoves:
    case Model::kHomes:
    case Model::kBackup:
    case Model::kSavedReplacement:
    case Model::kVap:
      break;
  }
  return Vap{static_cast<double>(1 + small(random, 200))};
}

TableShape make_table(Model model, std::mt19937_64& random) {
  if (model == Model::kTrouble) model = kModels[below(random, 9)];
  TableShape table;
  table.model = with_staleness(model, random);
  const bool weighted = consistency::rules_of(table.model).weighs_means;  // not of whole numbers
  table.type = static_cast<ValueType>(1 + below(random, weighted ? 2 : 4));
  table.rows = 1 + small(random, 60);
  table.copies = 1 + static_cast<std::uint32_t>(small(random, 3));
  table.ordered = consistency::rules_of(table.model).holds_updates_back &&
                  (table.type == ValueType::kFloat || table.type == ValueType::kDouble);
  table.shared = consistency::rules_of(table.model).pushes_at_once;
  if (chance(random, 0.2)) table.cache_rows = below(random, table.rows + 1);
  if (model == Model::kMoving || model == Model::kIntent || model == Model::kDeath) {
    table.moves = true;
    table.intents = model == Model::kIntent || (model == Model::kDeath && chance(random, 0.3));
    if (chance(random, 0.7)) table.rows = 1 + table.rows % 8;  // so few that many workers want the same
    table.cache_rows = UINT64_MAX;
  }
  return table;
}

NetworkOptions make_network(std::mt19937_64& random) {
  NetworkOptions network;
  network.seed = random();
  network.min_latency = std::chrono::nanoseconds(100);
  network.max_latency = microseconds(1 + small(random, 100));
  network.bytes_per_ns = chance(random, 0.2) ? 0.05 : 4;
  network.split_probability = chance(random, 0.3) ? 0 : 0.5;
  network.partial_post_probability = chance(random, 0.2) ? 0.1 : 0;
  network.queue_depth = chance(random, 0.3) ? 4 : 64;
  network.mapped = chance(random, 0.4);
  network.most_untaken_grants = 5;  // so many come with a connection
  return network;
}

void add_data_cursors(Scenario& scenario, std::mt19937_64& random) {
  scenario.mini_batch = 1 + small(random, 5);
  scenario.mini_batch_time = microseconds(100 + small(random, 900));
  const std::uint64_t most = 1 + below(random, 40);
  for (std::uint32_t worker = 0; worker < scenario.workers; ++worker)
    scenario.examples.push_back(chance(random, 0.1)   ? 0
                                : chance(random, 0.5) ? most
                                                      : 1 + below(random, most));
}

Strike make_strike(const Scenario& scenario, std::mt19937_64& random) {
  using std::chrono::milliseconds;
  constexpr std::array kKinds = {Disaster::kWorkerDies,        Disaster::kServerDies,
                                 Disaster::kLinkBreaks,        Disaster::kWorkerStops,
                                 Disaster::kServerStops,       Disaster::kAllStop,
                                 Disaster::kWorkerLacksMemory, Disaster::kServerLacksMemory,
                                 Disaster::kStranger,          Disaster::kTraitor};
  Strike strike{.what = kKinds[below(random, kKinds.size())]};
  const bool of_servers = strike.is_of_a_server() || strike.what == Disaster::kStranger;
  strike.victim = static_cast<std::uint32_t>(below(random, of_servers ? scenario.servers : scenario.workers));
  strike.delay = microseconds(small(random, 1500));
  // These cannot be early: there would be no link to break, and no worker to turn traitor. And if all stop
  // while a connection is being made, its timeout passes.
  const bool comes_late = strike.what == Disaster::kLinkBreaks || strike.what == Disaster::kTraitor ||
                          strike.what == Disaster::kAllStop;
  strike.early = !comes_late && chance(random, 0.4);
  const std::uint64_t most_ms = strike.what == Disaster::kAllStop ? 40'000 : 20'000;
  strike.length = strike.what != Disaster::kAllStop && chance(random, 0.5)
                      ? Duration(milliseconds(below(random, 3500)))
                      : Duration(milliseconds(10'000 + below(random, most_ms)));
  strike.regions =
      below(random, strike.is_of_a_server() ? 4 + 4 * scenario.workers : 4 + 5 * scenario.servers);
  return strike;
}

/// Up to 16 workers, and up to three disasters.
void add_trouble(Scenario& scenario, std::mt19937_64& random) {
  scenario.workers = 1 + static_cast<std::uint32_t>(small(random, 15));
  scenario.clocks = 2 + static_cast<std::int64_t>(below(random, 5));
  scenario.leaves_at.assign(scenario.workers, scenario.clocks);
  scenario.slowness.assign(scenario.workers, 1);
  scenario.nodes.clear();
  for (std::uint32_t worker = 0; worker < scenario.workers; ++worker)
    scenario.nodes.push_back(static_cast<std::uint32_t>(below(random, scenario.servers)));
  // More workers cannot count in one number of every type.
  constexpr std::uint32_t kMostThatCountInAny = 11;
  for (TableShape& table : scenario.tables) {
    if (table.shared && scenario.workers > kMostThatCountInAny) table.type = ValueType::kDouble;
  }
  // The rows of more workers do not fit into the smallest rings.
  constexpr std::uint32_t kMostForSmallestRings = 8;
  constexpr std::size_t kSmallRing = 8192;
  if (scenario.workers > kMostForSmallestRings) {
    scenario.inbox_bytes = std::max(scenario.inbox_bytes, kSmallRing);
    scenario.push_ring_bytes = std::max(scenario.push_ring_bytes, kSmallRing);
  }
  scenario.disasters.clear();
  for (std::uint64_t strikes = 1 + small(random, 2); strikes > 0; --strikes) {
    Strike strike = make_strike(scenario, random);
    // Short stops of one node may follow one another. Together they must not be longer than one.
    Duration left = Strike::kShortStop;
    for (const Strike& earlier : scenario.disasters) {
      if (earlier.is_short_stop() && earlier.what == strike.what && earlier.victim == strike.victim)
        left -= earlier.length;
    }
    if (strike.is_short_stop()) strike.length = std::min(strike.length, left);
    scenario.disasters.push_back(strike);
  }
}

/// Small tables, whose rows and segments are used again soon, and reads whose words are read one by one.
void add_churn(Scenario& scenario, std::mt19937_64& random) {
  constexpr std::array kChurnModels = {Model::kSsp, Model::kEssp, Model::kSsp,
                                       Model::kAsp, Model::kBsp,  Model::kAsp};
  Churn churn;
  churn.model = with_staleness(kChurnModels[below(random, kChurnModels.size())], random);
  const auto staleness = static_cast<std::int64_t>(consistency::staleness(churn.model));
  churn.rows = chance(random, 0.5) ? 1 + below(random, 3) : 2 + below(random, 14);
  churn.reads = chance(random, 0.5) ? 0.05 : 0.4;
  churn.width = 1 + static_cast<std::uint32_t>(below(random, 4));
  churn.age = 2 * staleness + 4 + static_cast<std::int64_t>(below(random, 2));
  churn.turn = churn.age + staleness + 5;
  if (consistency::rules_of(churn.model).lets_workers_drift()) {
    // How often a row may count is not known anyhow: rows go as often as they can.
    churn.age = 1;
    churn.turn = 2 + static_cast<std::int64_t>(below(random, 3));
  }
  churn.encoding = chance(random, 0.3) ? "packed" : chance(random, 0.3) ? "packed(lists=6)" : "auto";
  if (chance(random, 0.2)) churn.cache_rows = 1 + below(random, churn.rows);
  churn.pairs = scenario.seed % 4 == 2;  // the other seeds keep their meaning
  if (scenario.seed % 8 == 5) {
    constexpr std::array kEvictions = {"count(least=2,half_life=2)", "norm(least=2500,clocks=2)",
                                       "lru(most_mb=0.0008)", "age(clocks=2,most_mb=0.0008)"};
    churn.eviction = kEvictions[scenario.seed / 8 % kEvictions.size()];
  }
  scenario.churn = churn;
  scenario.tables.clear();
  scenario.disasters.clear();
  scenario.calls = false;
  scenario.async_pulls = false;
  scenario.workers = 2 + scenario.workers % 3;
  scenario.clocks =
      std::max<std::int64_t>(churn.turn * (3 + static_cast<std::int64_t>(below(random, 4))), 30);
  scenario.leaves_at.assign(scenario.workers, scenario.clocks + 1);
  if (chance(random, 0.2))
    scenario.leaves_at[0] =
        1 + static_cast<std::int64_t>(below(random, static_cast<std::uint64_t>(scenario.clocks)));
  scenario.slowness.assign(scenario.workers, 1);
  if (chance(random, 0.3)) scenario.slowness[1] = 2 + static_cast<double>(below(random, 10));
  scenario.nodes.clear();
  for (std::uint32_t worker = 0; worker < scenario.workers; ++worker)
    scenario.nodes.push_back(static_cast<std::uint32_t>(below(random, scenario.servers)));
  scenario.keys_of_segment = 1 + static_cast<std::uint32_t>(below(random, 4));
  scenario.network.line_bytes = sizeof(std::uint64_t);
  scenario.network.split_probability = 0.9;
  // Lookups that are still under way when the row that they have found is another key's.
  if (chance(random, 0.4)) scenario.network.max_latency *= 20;
  scenario.network.mapped = chance(random, 0.2);
  scenario.read_path = ReadPath::kAuto;
  if (chance(random, 0.1)) {
    scenario.disasters.push_back({.what = Disaster::kWorkerStops,
                                  .victim = static_cast<std::uint32_t>(below(random, scenario.workers)),
                                  .delay = microseconds(small(random, 1500)),
                                  .length = Strike::kShortStop / 2});
  }
}

/// One that chooses rows, with limits that some updates reach and others do not, or one that rounds, or both.
std::string make_filter(const RowTable& table, std::mt19937_64& random) {
  const std::uint64_t kind = below(random, 4);
  const bool must_be_foreseeable = table.takes_steps() || table.least > 1 || table.probability < 1;
  if (!must_be_foreseeable && table.rule == RowRule::kAdd && chance(random, 0.5)) {
    const std::string rounding = chance(random, 0.5) ? "bf16" : "int8";
    constexpr std::array kChoosing = {"", "top(share=0.5)+", "random(share=0.5)+",
                                      "significant(least=3000)+"};
    return kChoosing[kind] + rounding;
  }
  if (kind == 0 && !must_be_foreseeable) return fmt::format("top(share=0.{})", below(random, 10));
  if (kind == 1 && !must_be_foreseeable) return fmt::format("random(share=0.{})", below(random, 10));
  const std::uint64_t most = table.least > 1 || table.probability < 1 ? 20'000 : 40;
  return fmt::format("significant(least={},power={})", 1 + small(random, most),
                     0.5 * static_cast<double>(below(random, 3)));
}

RowTable make_row_table(std::mt19937_64& random) {
  constexpr std::array kRowModels = {Model::kBsp,          Model::kSsp, Model::kEssp,
                                     Model::kBoundedDelay, Model::kAsp, Model::kSequential};
  RowTable table;
  table.model = with_staleness(kRowModels[below(random, kRowModels.size())], random);
  table.rule = static_cast<RowRule>(below(random, 4));
  const consistency::Rules rules = consistency::rules_of(table.model);
  if (table.rule == RowRule::kClockSteps && rules.lets_workers_drift()) table.rule = RowRule::kSteps;
  table.rows = 1 + small(random, 24);
  table.sparse = chance(random, 0.6);
  if (table.sparse && table.rule == RowRule::kAdd) {
    if (chance(random, 0.5)) table.least = 2 + static_cast<std::uint32_t>(below(random, 3));
    if (table.least == 1 && chance(random, 0.2)) table.probability = 0.4;
  }
  if (!rules.pushes_at_once && chance(random, 0.5)) table.filter = make_filter(table, random);
  if (chance(random, 0.4))
    table.encoding = chance(random, 0.5) ? "packed" : fmt::format("packed(lists={})", 4 + below(random, 12));
  if (chance(random, 0.2)) table.cache_rows = below(random, table.rows + 1);
  return table;
}

void add_rows(Scenario& scenario, std::mt19937_64& random) {
  scenario.tables.clear();
  scenario.disasters.clear();
  for (std::uint64_t more = 1 + small(random, 2); more > 0; --more)
    scenario.row_tables.push_back(make_row_table(random));
  scenario.update_budget_mb_per_s = 0;  // what travels within a clock could not be foreseen
  if (chance(random, 0.1)) {
    scenario.disasters.push_back({.what = Disaster::kWorkerStops,
                                  .victim = static_cast<std::uint32_t>(below(random, scenario.workers)),
                                  .delay = microseconds(small(random, 1500)),
                                  .length = Strike::kShortStop / 2});
  }
}

DiskFault make_disk_fault(std::mt19937_64& random, bool may_kill) {
  using What = DiskFault::What;
  constexpr std::array kKinds = {What::kFails, What::kIsFull, What::kUserDies, What::kUserDies,
                                 What::kPowerFails};
  DiskFault fault{.what = kKinds[below(random, may_kill ? kKinds.size() : 2)]};
  fault.operation = chance(random, 0.3) ? below(random, 30) : below(random, 400);
  if (fault.what == What::kIsFull) fault.length = 1 + small(random, 60);
  return fault;
}

Life make_life(const Scenario& scenario, bool is_first, bool is_last, std::mt19937_64& random) {
  constexpr std::array<std::uint32_t, 4> kServers = {1, 2, 3, 5};
  Life life{.servers = scenario.servers, .lanes = scenario.lanes, .lane_tasks = scenario.lane_tasks};
  life.nodes = scenario.nodes;
  life.clocks = scenario.clocks;
  life.seed = random();
  if (!is_first) {
    life.servers = kServers[below(random, kServers.size())];
    life.lanes = 1 + static_cast<std::uint32_t>(small(random, 2));
    life.lane_tasks = chance(random, 0.5);
    for (std::uint32_t& node : life.nodes) node = static_cast<std::uint32_t>(below(random, life.servers));
  }
  life.slowest_operation = microseconds(1 + small(random, chance(random, 0.2) ? 2000 : 60));
  // What kills ends a life; a job that outlives nodes has its own deaths.
  const bool may_kill = !is_last && !scenario.outlives_nodes;
  if (is_first && scenario.outlives_nodes) life.disasters = scenario.disasters;
  if (may_kill && chance(random, 0.3)) {
    Strike& strike = life.disasters.emplace_back();
    strike.what = static_cast<Disaster>(below(random, 3));
    strike.victim = static_cast<std::uint32_t>(
        below(random, strike.what == Disaster::kServerDies ? life.servers : scenario.workers));
    strike.delay = microseconds(below(random, chance(random, 0.5) ? 2000 : 20'000));
  } else if (chance(random, 0.1)) {
    life.disasters.push_back({.what = Disaster::kWorkerStops,
                              .victim = static_cast<std::uint32_t>(below(random, scenario.workers)),
                              .delay = microseconds(below(random, 5000)),
                              .length = Strike::kShortStop / 2});
  }
  for (std::uint64_t faults = chance(random, 0.5) ? 0 : 1 + small(random, 1); faults > 0; --faults)
    life.disk_faults.push_back(make_disk_fault(random, may_kill));
  life.power_fails_after_it = chance(random, 0.3);
  return life;
}

/// More of what is only seen when it is not in a checkpoint: keys that have come too seldom for a row, and
/// rows that would stay too long if they counted as just used.
void make_cuts_matter(Scenario& scenario, std::mt19937_64& random) {
  for (RowTable& table : scenario.row_tables) {
    if (table.rule != RowRule::kAdd || !chance(random, 0.7)) continue;
    table.sparse = true;
    table.least = 3 + static_cast<std::uint32_t>(below(random, 4));
    table.probability = 1;
    table.filter = "none";
  }
  if (!scenario.churn || consistency::rules_of(scenario.churn->model).lets_workers_drift()) return;
  if (chance(random, 0.3)) return;
  const std::int64_t longer = 4 + static_cast<std::int64_t>(below(random, 5));
  scenario.churn->age += longer;
  scenario.churn->turn += longer;
  scenario.clocks = std::max(scenario.clocks, 4 * scenario.churn->turn);
}

/// A scenario of another model, with checkpoints.
Scenario make_checkpoints(std::uint64_t seed) {
  constexpr std::array kOf = {Model::kBsp,    Model::kSsp,        Model::kEssp,   Model::kBoundedDelay,
                              Model::kAsp,    Model::kSequential, Model::kVap,    Model::kABsp,
                              Model::kMoving, Model::kIntent,     Model::kDeath,  Model::kChurn,
                              Model::kRows,   Model::kRows,       Model::kMoving, Model::kChurn};
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kCheckpoints));
  Scenario scenario = make_scenario(kOf[below(random, kOf.size())], seed);
  if (!scenario.outlives_nodes) scenario.disasters.clear();
  make_cuts_matter(scenario, random);
  // Who has left has no part in checkpoints.
  if (chance(random, 0.9)) scenario.leaves_at.assign(scenario.workers, scenario.clocks + 1);
  Checkpoints checkpoints;
  checkpoints.every = 1 + below(random, scenario.clocks > 20 ? 12 : 4);
  checkpoints.keep = 1 + below(random, 3);
  checkpoints.increments = static_cast<std::uint32_t>(seed % 3);
  const std::uint64_t lives = 2 + below(random, 2);
  const bool has_little_time = chance(random, 0.7);  // as a batch job
  for (std::uint64_t i = 0; i < lives; ++i) {
    Life& life = checkpoints.lives.emplace_back(make_life(scenario, i == 0, i + 1 == lives, random));
    const auto share = static_cast<std::int64_t>(i + 1) * scenario.clocks / static_cast<std::int64_t>(lives);
    if (has_little_time) life.clocks = std::max<std::int64_t>(share, 1);
  }
  scenario.checkpoints = checkpoints;
  return scenario;
}

/// Copies that take a server's place have much that they have acknowledged, and not used. From a generator of
/// its own, so that older seeds keep their meaning.
void let_copies_lag(Scenario& scenario) {
  std::mt19937_64 random(scenario.seed + 0x1a66e4);
  if (chance(random, 0.7)) scenario.lag_of_copies = microseconds(small(random, 4000));
}

/// A scenario of another model, in which servers have copies, and one copy of each may die.
Scenario make_failover(std::uint64_t seed) {
  constexpr std::array kOf = {Model::kBsp,  Model::kSsp,        Model::kEssp,       Model::kBoundedDelay,
                              Model::kAsp,  Model::kABsp,       Model::kRows,       Model::kChurn,
                              Model::kRows, Model::kChurn,      Model::kChurn,      Model::kVap,
                              Model::kVap,  Model::kSequential, Model::kSequential, Model::kSequential};
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kFailover));
  const Model of = kOf[below(random, kOf.size())];
  Scenario scenario = make_scenario(of, seed);
  scenario.disasters.clear();
  std::erase_if(scenario.tables, [](const TableShape& table) { return table.moves; });  // there are no copies
  if (scenario.churn && !consistency::rules_of(scenario.churn->model).holds_updates_back) {
    scenario.churn->model = Bsp{};
    scenario.churn->age = 4 + static_cast<std::int64_t>(below(random, 2));
    scenario.churn->turn = scenario.churn->age + 5;
  }
  // Updates that name rows by their numbers, which must be the same on all copies.
  if (scenario.churn && chance(random, 0.7)) {
    scenario.churn->encoding = "packed";
    scenario.network.mapped = chance(random, 0.6);
  }
  scenario.copies = chance(random, 0.3) ? 3 : 2;
  const bool is_long = scenario.copies == 3 && seed % 2 == 0;
  if (is_long) scenario.copies = 4;
  scenario.slowest_news = microseconds(small(random, 3000));
  if ((of == Model::kSequential || of == Model::kVap) && chance(random, 0.6)) {
    // So that rows of servers that are gone can be read, by workers that hear late of it, and wait for
    // nothing.
    scenario.network.mapped = true;
    scenario.read_path = ReadPath::kAuto;
    scenario.slowest_news = microseconds(below(random, 10'000));
    scenario.readers = static_cast<std::uint32_t>(below(random, scenario.workers));
  }
  const auto moment = [&] {
    const std::uint64_t of_many = scenario.churn && chance(random, 0.7) ? 20 + below(random, 200) : 4;
    return microseconds(small(random, of_many * 1000));
  };
  // All copies of a server but one, at most. In a long chain one in the middle dies first, and then those
  // beside it.
  for (std::uint32_t server = 0; server < scenario.servers; ++server) {
    if (chance(random, 0.2)) continue;
    const Duration first_of_many = is_long ? moment() : Duration(0);
    const auto survivor = static_cast<std::uint32_t>(
        chance(random, is_long ? 0.95 : 0.75) ? scenario.copies - 1 : below(random, scenario.copies));
    for (std::uint32_t copy = 0; copy < scenario.copies; ++copy) {
      if (copy == survivor || (copy > 0 && chance(random, is_long ? 0.1 : 0.3))) continue;
      Strike& strike = scenario.disasters.emplace_back();
      strike.what = Disaster::kServerDies;
      strike.victim = server;
      strike.copy = copy;
      strike.delay = !is_long ? moment()
                     : copy == 1
                         ? first_of_many
                         : first_of_many + 8 * scenario.slowest_news + microseconds(small(random, 4000));
      strike.early = !is_long && chance(random, 0.2);
    }
  }
  if (chance(random, 0.15)) {
    scenario.disasters.push_back({.what = Disaster::kWorkerStops,
                                  .victim = static_cast<std::uint32_t>(below(random, scenario.workers)),
                                  .delay = moment(),
                                  .length = Strike::kShortStop / 2});
  }
  let_copies_lag(scenario);
  return scenario;
}

/// Much happens while an image is copied and sent. From a generator of its own, so that older seeds keep
/// their meaning.
void make_images_slow(Scenario& scenario) {
  std::mt19937_64 random(scenario.seed + 0x13a9e5);
  server::ImageGrain& grain = scenario.image_grain;
  const auto is_sparse = [](const auto& table) { return table.sparse; };
  // Their indexes take 100 kB.
  const bool is_large = scenario.churn || std::ranges::any_of(scenario.tables, is_sparse) ||
                        std::ranges::any_of(scenario.row_tables, is_sparse);
  grain.block_bytes = std::size_t{8} << (below(random, 5) + (is_large ? 6 : 0));
  grain.buffer_bytes = (grain.block_bytes + sizeof(protocol::ImageBlock)) << below(random, is_large ? 6 : 3);
  grain.bytes_a_turn = grain.block_bytes << below(random, 6);
  grain.log_bytes_a_turn = 1;
  if (chance(random, 0.7)) grain.between_messages = microseconds(small(random, is_large ? 200 : 2000));
  if (chance(random, 0.6)) grain.waits_for_clock = microseconds(small(random, 2000));
  if (chance(random, 0.5)) scenario.slowness_of_who_joins = std::exp2(small(random, 6));
  if (chance(random, 0.2)) grain.spare_log_bytes = std::uint64_t{64} << 2 * below(random, 5);
}

/// Copies of servers die, any and many, and others join in their places.
void let_others_join(Scenario& scenario, std::mt19937_64& random) {
  scenario.repairs = true;
  std::erase_if(scenario.disasters,
                [](const Strike& strike) { return strike.what == Disaster::kServerDies; });
  if (chance(random, 0.3)) scenario.copies = 3;
  make_images_slow(scenario);
  for (std::uint32_t server = 0; server < scenario.servers; ++server) {
    Duration delay{0};
    for (std::uint64_t deaths = 1 + below(random, 4); deaths > 0; --deaths) {
      // Often one dies while the others still deal with the death before.
      delay = delay > Duration(0) && chance(random, 0.5)
                  ? delay + microseconds(small(random, 4000))
                  : microseconds(small(random, scenario.churn ? 200'000 : 20'000));
      const double moment = std::uniform_real_distribution()(random);
      scenario.disasters.push_back({.what = Disaster::kCopyDies,
                                    .victim = server,
                                    .delay = moment < 0.2 ? delay / 20 : delay,
                                    .early = moment > 0.9,
                                    .late = moment < 0.2});
    }
  }
}

/// A scenario of failover in which another copy joins when one has died, and more die than there were at the
/// beginning.
Scenario make_repair(std::uint64_t seed) {
  Scenario scenario = make_failover(seed);
  std::mt19937_64 random(seed + 0x2e9a12);
  let_others_join(scenario, random);
  return scenario;
}

/// Most copies that would die are taken for dead instead.
void let_them_go_on(Scenario& scenario, std::mt19937_64& random, std::uint64_t seed) {
  for (Strike& strike : scenario.disasters) {
    const bool is_of_a_copy = strike.what == Disaster::kServerDies || strike.what == Disaster::kCopyDies;
    if (!is_of_a_copy || chance(random, 0.2)) continue;
    strike.fate = static_cast<Fate>(1 + below(random, 3));
    strike.length = microseconds(small(random, chance(random, 0.3) ? 2'000'000 : 20'000));
    // Longer than anybody waits.
    if (strike.fate == Fate::kStops && seed % 16 == 5) strike.length = std::chrono::seconds(30);
  }
}

/// A scenario of failover on several hosts, where nobody can tell a process that is gone from one that is
/// stopped or cannot be reached.
Scenario make_hosts(std::uint64_t seed) {
  Scenario scenario = make_failover(seed);
  std::mt19937_64 random(seed + 0x405f5);
  scenario.left_behind = true;
  scenario.network.connections_may_break = !scenario.network.mapped && chance(random, 0.7);
  let_them_go_on(scenario, random, seed);
  scenario.computes_long = seed % 16 != 5 && chance(random, 0.5);
  return scenario;
}

/// A scenario of several hosts in which another process comes in the place of each that is gone, or is taken
/// for that, and goes on.
Scenario make_rejoin(std::uint64_t seed) {
  Scenario scenario = make_hosts(seed);
  std::mt19937_64 random(seed + 0x4e701);
  let_others_join(scenario, random);
  // There nobody is ended for taking too little, but those to whom something has happened.
  scenario.image_grain.spare_log_bytes = server::ImageGrain().spare_log_bytes;
  let_them_go_on(scenario, random, seed);
  return scenario;
}

/// A scenario of several hosts in which servers move, half of the time without copies, and meanwhile some
/// copies die or are taken for dead, as far as another one has all.
Scenario make_moves(std::uint64_t seed) {
  Scenario scenario = make_rejoin(seed);
  std::mt19937_64 random(seed + 0x30fe5);
  scenario.is_elastic = true;
  scenario.copies = chance(random, 0.5) ? 1 : 2;
  std::erase_if(scenario.disasters, [&](const Strike& strike) {
    return strike.what == Disaster::kCopyDies && chance(random, 0.5);
  });
  for (std::uint32_t server = 0; server < scenario.servers; ++server) {
    Duration delay{0};
    for (std::uint64_t moves = below(random, 4); moves > 0; --moves) {
      delay += microseconds(small(random, scenario.churn ? 100'000 : 10'000));
      Strike& strike = scenario.disasters.emplace_back();
      strike.what = Disaster::kServerMoves;
      strike.victim = server;
      strike.copy = static_cast<std::uint32_t>(below(random, scenario.copies));
      strike.delay = delay;
      strike.early = chance(random, 0.1);
      // Most hear that they are replaced, and end.
      strike.fate = chance(random, 0.7) ? Fate::kGoesOn : Fate::kIsCutOff;
      if (strike.fate == Fate::kGoesOn && chance(random, 0.2)) strike.fate = Fate::kStops;
      if (strike.fate != Fate::kGoesOn)
        strike.length = microseconds(small(random, chance(random, 0.3) ? 2'000'000 : 20'000));
    }
  }
  return scenario;
}

/// A scenario of another model in which workers die at random moments, some again and again, and other
/// processes take their places: with servers that die meanwhile, as in these models, or without.
Scenario let_workers_die(std::uint64_t seed, std::mt19937_64& random, Model with_copies, Model with_others) {
  const std::array kOf = {Model::kBsp, Model::kBsp, Model::kSsp,        Model::kEssp, Model::kBoundedDelay,
                          Model::kAsp, Model::kVap, Model::kSequential, with_copies,  with_others};
  const Model drawn = kOf[below(random, kOf.size())];
  const Model of = seed % 8 == 7 ? Model::kChurn : drawn;  // the other seeds keep their meaning
  Scenario scenario = make_scenario(of, seed);
  // Those with other kinds of work, or with numbers that all workers weigh together.
  const auto is_other = [&] {
    if (of == Model::kChurn) return false;
    return scenario.churn || !scenario.row_tables.empty() || !scenario.examples.empty() ||
           scenario.tables.empty() ||
           std::any_of(scenario.tables.begin(), scenario.tables.end(), [](const TableShape& table) {
             return consistency::rules_of(table.model).weighs_means;
           });
  };
  for (std::uint64_t other = seed; is_other();) scenario = make_scenario(of, other += 1'000'003);
  std::erase_if(scenario.disasters, [](const Strike& strike) {
    return !strike.is_of_a_server() ||
           (strike.what != Disaster::kServerDies && strike.what != Disaster::kCopyDies);
  });
  if (of != with_copies && of != with_others) scenario.disasters.clear();
  for (TableShape& table : scenario.tables) table.ordered = table.shared = false;  // numbers of all workers
  const std::uint64_t deaths = 1 + below(random, 3);
  scenario.spares = static_cast<std::uint32_t>(deaths);
  auto victim = static_cast<std::uint32_t>(below(random, scenario.workers));
  for (std::uint64_t death = 0; death < deaths; ++death) {
    if (chance(random, 0.5)) victim = static_cast<std::uint32_t>(below(random, scenario.workers));
    scenario.disasters.push_back({.what = Disaster::kWorkerIsReplaced,
                                  .victim = victim,
                                  .delay = microseconds(small(random, scenario.churn ? 100'000 : 6000)),
                                  .early = chance(random, 0.2)});
  }
  return scenario;
}

Scenario make_replacement(std::uint64_t seed) {
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kReplacement));
  return let_workers_die(seed, random, Model::kFailover, Model::kRepair);
}

/// The same with checkpoints: many of the workers die while they write, and some in jobs that have gone on
/// from a checkpoint; on several hosts some only seem to have died. What ends a job is that its time is over,
/// or that the power fails.
Scenario make_saved_replacement(std::uint64_t seed) {
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kSavedReplacement));
  const bool is_remote = chance(random, 0.3);
  Scenario scenario = let_workers_die(seed, random, is_remote ? Model::kHosts : Model::kFailover,
                                      is_remote ? Model::kRejoin : Model::kRepair);
  if (is_remote && scenario.copies == 1)
    scenario.network.connections_may_break = !scenario.network.mapped && chance(random, 0.8);
  scenario.leaves_at.assign(scenario.workers, scenario.clocks + 1);
  Checkpoints checkpoints;
  checkpoints.every = 1 + below(random, scenario.churn ? 12 : 3);
  checkpoints.keep = 1 + below(random, 2);
  checkpoints.increments = static_cast<std::uint32_t>(seed % 3);
  checkpoints.keep_resumed = true;
  const std::uint64_t lives = 1 + below(random, 3);
  for (std::uint64_t i = 0; i < lives; ++i) {
    Life& life = checkpoints.lives.emplace_back(
        Life{.servers = scenario.servers, .lanes = scenario.lanes, .lane_tasks = scenario.lane_tasks});
    life.nodes = scenario.nodes;
    const auto share = static_cast<std::int64_t>(i + 1) * scenario.clocks / static_cast<std::int64_t>(lives);
    life.clocks = std::max<std::int64_t>(share, 1);
    life.seed = random();
    life.slowest_operation = microseconds(1 + small(random, chance(random, 0.2) ? 2000 : 60));
    if (i == 0) life.disasters = scenario.disasters;
    if (i > 0 && chance(random, 0.7)) {
      ++scenario.spares;
      life.disasters.push_back({.what = Disaster::kWorkerIsReplaced,
                                .victim = static_cast<std::uint32_t>(below(random, scenario.workers)),
                                .delay = microseconds(small(random, scenario.churn ? 100'000 : 20'000)),
                                .early = chance(random, 0.2)});
    }
    for (Strike& strike : life.disasters) {
      if (!is_remote || strike.what != Disaster::kWorkerIsReplaced || chance(random, 0.3)) continue;
      strike.fate = Fate::kGoesOn;
      strike.length = microseconds(small(random, chance(random, 0.3) ? 200'000 : 5'000));
    }
    for (std::uint64_t deaths = below(random, 3); deaths > 0; --deaths) {
      ++scenario.spares;
      life.disk_faults.push_back({.what = DiskFault::What::kUserDies, .operation = below(random, 150)});
    }
    if (chance(random, 0.15)) life.disk_faults.push_back(make_disk_fault(random, /*may_kill=*/false));
    if (i + 1 < lives && chance(random, 0.1))
      life.disk_faults.push_back({.what = DiskFault::What::kPowerFails, .operation = below(random, 300)});
    life.power_fails_after_it = chance(random, 0.3);
  }
  // The rows of more processes do not fit into the smallest rings.
  constexpr std::uint32_t kMostForSmallestRings = 8;
  if (scenario.workers + scenario.spares > kMostForSmallestRings) {
    constexpr std::size_t kSmallRing = 16'384;
    scenario.inbox_bytes = std::max(scenario.inbox_bytes, kSmallRing);
    scenario.push_ring_bytes = std::max(scenario.push_ring_bytes, kSmallRing);
  }
  scenario.checkpoints = checkpoints;
  return scenario;
}

/// The same on several hosts: a worker may only seem to have died, and goes on beside the one in its place.
Scenario make_remote_replacement(std::uint64_t seed) {
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kRemoteReplacement));
  Scenario scenario = let_workers_die(seed, random, Model::kHosts, Model::kRejoin);
  if (scenario.copies == 1)
    scenario.network.connections_may_break = !scenario.network.mapped && chance(random, 0.8);
  for (Strike& strike : scenario.disasters) {
    if (strike.what != Disaster::kWorkerIsReplaced || chance(random, 0.2)) continue;
    strike.fate = chance(random, 0.25) ? Fate::kStops : Fate::kGoesOn;
    if (strike.fate == Fate::kStops) scenario.computes_long = false;  // both are longer than anybody waits
    strike.length = strike.fate == Fate::kStops
                        ? std::chrono::seconds(8)
                        : microseconds(small(random, chance(random, 0.3) ? 200'000 : 5'000));
    // Longer than anybody waits, unless that is right: until a process ends that shares memory; and a copy
    // that takes a server's place does not know whether one that has not come to it is stopped or computes.
    const bool may_be_long = strike.fate == Fate::kGoesOn ? scenario.network.connections_may_break
                                                          : scenario.copies == 1 && !strike.early;
    if (may_be_long && chance(random, 0.3)) strike.length = std::chrono::seconds(30);
  }
  // Nobody watches one that is stopped while its connection is broken.
  const bool any_stops = std::ranges::any_of(
      scenario.disasters, [](const Strike& strike) { return strike.fate == Fate::kStops; });
  std::mt19937_64 others(seed + 0x57e9a);
  for (Strike& strike : scenario.disasters) {
    const bool may_step_aside = strike.what == Disaster::kWorkerIsReplaced && !scenario.churn && !any_stops;
    if (may_step_aside && chance(others, 0.3)) strike.fate = Fate::kStepsAside;
  }
  if (!scenario.network.connections_may_break || any_stops) return scenario;
  for (std::uint64_t breaks = small(random, 4); breaks > 0; --breaks) {
    scenario.disasters.push_back({.what = Disaster::kLinkBreaks,
                                  .victim = static_cast<std::uint32_t>(below(random, scenario.workers)),
                                  .delay = microseconds(small(random, 8'000))});
  }
  return scenario;
}

/// A scenario of kDeath with more nodes, of which one or more die at random moments, or are taken for dead,
/// often while the others still deal with the death before. Nobody dies alone. The last worker checks the
/// end: its node does not die.
Scenario make_homes(std::uint64_t seed) {
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kHomes));
  Scenario scenario = make_scenario(Model::kDeath, seed);
  scenario.servers = 3 + static_cast<std::uint32_t>(below(random, 3));
  const auto workers = static_cast<std::uint32_t>(3 + below(random, 4));
  scenario.workers = workers;
  scenario.leaves_at.assign(workers, scenario.clocks);
  scenario.slowness.resize(workers, 1);
  scenario.nodes.resize(workers);
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    scenario.nodes[worker] = static_cast<std::uint32_t>(below(random, scenario.servers));
    if (worker + 1 < workers && chance(random, 0.1))
      scenario.leaves_at[worker] =
          static_cast<std::int64_t>(below(random, static_cast<std::uint64_t>(scenario.clocks)));
  }
  for (TableShape& table : scenario.tables) {
    table.intents = chance(random, 0.5);
    if (!chance(random, 0.4)) continue;
    table.model = Asp{};
    table.shared = false;
  }
  scenario.disasters.clear();
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < scenario.servers; ++node) {
    if (node != scenario.nodes.back()) nodes.push_back(node);
  }
  std::shuffle(nodes.begin(), nodes.end(), random);
  Duration delay = microseconds(small(random, 4000));
  for (std::uint64_t deaths = 1 + small(random, nodes.size() - 1); deaths > 0; --deaths) {
    scenario.disasters.push_back({.what = Disaster::kNodeDies, .victim = nodes[deaths - 1], .delay = delay});
    delay += microseconds(small(random, chance(random, 0.6) ? 150 : 3000));
    if (!chance(random, 0.15)) continue;
    scenario.disasters.back().what = Disaster::kNodeIsMissed;
    scenario.disasters.back().copy = static_cast<std::uint32_t>(below(random, workers));
  }
  return scenario;
}

/// A scenario of kHomes whose servers keep images of one another's rows. Nodes die later, so that there is
/// something to be brought back.
Scenario make_backup(std::uint64_t seed) {
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kBackup));
  Scenario scenario = make_homes(seed);
  scenario.backup_every_ms = 1;
  scenario.scheduler.pause_probability = 0;  // so that there is a bound
  scenario.rests = true;
  for (TableShape& table : scenario.tables) table.shared = false;
  Duration later{0};
  for (Strike& strike : scenario.disasters) {
    strike.what = Disaster::kNodeDies;
    if (chance(random, 0.6)) later += microseconds(small(random, 20'000));
    strike.delay += later;
  }
  return scenario;
}

/// A scenario of another model in which connections break, of workers and between copies of servers, some
/// again and again, and nobody may notice.
Scenario make_mending(std::uint64_t seed) {
  constexpr std::array kOf = {Model::kBsp,         Model::kSsp,      Model::kEssp,   Model::kBoundedDelay,
                              Model::kAsp,         Model::kVap,      Model::kABsp,   Model::kSequential,
                              Model::kRows,        Model::kRows,     Model::kChurn,  Model::kChurn,
                              Model::kCheckpoints, Model::kFailover, Model::kRepair, Model::kReplacement};
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(Model::kMending));
  const Model of = kOf[below(random, kOf.size())];
  Scenario scenario = make_scenario(of, seed);
  const auto moves = [](const TableShape& table) { return table.moves; };
  for (std::uint64_t other = seed; std::ranges::any_of(scenario.tables, moves);)
    scenario = make_scenario(of, other += 1'000'003);
  scenario.network.connections_may_break = true;
  if (scenario.copies == 1 && scenario.spares == 0) scenario.disasters.clear();
  const bool is_long = scenario.churn || scenario.checkpoints;
  const auto add_breaks = [&](std::vector<Strike>& disasters, std::uint32_t servers) {
    const bool of_server = chance(random, 0.3);
    const auto choose = [&] {
      return static_cast<std::uint32_t>(below(random, of_server ? servers : scenario.workers));
    };
    std::uint32_t victim = choose();
    Duration delay{0};
    for (std::uint64_t breaks = 1 + small(random, 7); breaks > 0; --breaks) {
      if (chance(random, 0.4)) victim = choose();
      // Often one breaks while that before it is being mended.
      delay = delay > Duration(0) && chance(random, 0.5)
                  ? delay + microseconds(small(random, 2000))
                  : microseconds(small(random, is_long && chance(random, 0.7) ? 100'000 : 4'000));
      disasters.push_back({.what = of_server ? Disaster::kServerLinkBreaks : Disaster::kLinkBreaks,
                           .victim = victim,
                           .delay = delay,
                           .copy = static_cast<std::uint32_t>(below(random, scenario.copies)),
                           .early = chance(random, 0.15)});
    }
  };
  if (!scenario.checkpoints) {
    add_breaks(scenario.disasters, scenario.servers);
    return scenario;
  }
  for (Life& life : scenario.checkpoints->lives) add_breaks(life.disasters, life.servers);
  return scenario;
}

}  // namespace

Scenario make_scenario(Model model, std::uint64_t seed) {
  if (model == Model::kMending) return make_mending(seed);
  if (model == Model::kReplacement) return make_replacement(seed);
  if (model == Model::kFailover) return make_failover(seed);
  if (model == Model::kHosts) return make_hosts(seed);
  if (model == Model::kRejoin) return make_rejoin(seed);
  if (model == Model::kRemoteReplacement) return make_remote_replacement(seed);
  if (model == Model::kMoves) return make_moves(seed);
  if (model == Model::kHomes) return make_homes(seed);
  if (model == Model::kBackup) return make_backup(seed);
  if (model == Model::kSavedReplacement) return make_saved_replacement(seed);
  if (model == Model::kRepair) return make_repair(seed);
  if (model == Model::kCheckpoints) return make_checkpoints(seed);
  std::mt19937_64 random(seed * 3 + static_cast<std::uint64_t>(model));
  Scenario scenario;
  scenario.seed = seed;
  scenario.servers = 1 + static_cast<std::uint32_t>(below(random, 3));
  scenario.workers = 1 + static_cast<std::uint32_t>(below(random, 4));
  scenario.lanes = 1 + static_cast<std::uint32_t>(small(random, 2));
  scenario.lane_tasks = chance(random, 0.5);
  scenario.clocks = 2 + static_cast<std::int64_t>(below(random, 14));
  if (model == Model::kIntent) {
    scenario.servers = 2 + scenario.servers % 2;  // with one, no row can move
    scenario.clocks *= 5;  // as if each were a mini-batch, and enough for the bounds on replicas
  }
  if (model == Model::kMoving) scenario.clocks *= 2;  // enough for rows to come back
  if (model == Model::kDeath) {
    scenario.servers = 2 + scenario.servers % 2;
    scenario.workers = 2 + scenario.workers % 3;
  }
  if (chance(random, 0.3)) scenario.barrier_every = 1 + static_cast<std::int64_t>(below(random, 4));
  for (std::uint32_t worker = 0; worker < scenario.workers; ++worker) {
    // The last worker stays and checks everything at the end.
    const bool leaves = worker + 1 < scenario.workers && chance(random, 0.15);
    scenario.leaves_at.push_back(
        leaves ? static_cast<std::int64_t>(below(random, static_cast<std::uint64_t>(scenario.clocks)))
               : scenario.clocks);
    scenario.slowness.push_back(chance(random, 0.2) ? 2 + static_cast<double>(below(random, 20)) : 1);
  }
  scenario.tables.push_back(make_table(model, random));
  // How many of the models the job's other tables are drawn from. Those that were added later are not drawn
  // for earlier ones, so that the seeds of SimulationRegressionTest keep their meaning.
  const std::uint64_t beside = model <= Model::kEssp    ? 3
                               : model <= Model::kABsp  ? 8
                               : model < Model::kIntent ? 9
                                                        : 10;
  for (std::uint64_t more = small(random, 2); more > 0; --more)
    scenario.tables.push_back(
        make_table(model >= Model::kDeath ? model : kModels[below(random, beside)], random));
  scenario.network = make_network(random);
  const std::uint64_t path = below(random, scenario.network.mapped ? 3 : 2);
  scenario.read_path = path == 0 ? ReadPath::kAuto : path == 1 ? ReadPath::kCached : ReadPath::kInPlace;
  const auto ring = [&] { return std::size_t{4096} << small(random, 4); };
  scenario.inbox_bytes = ring();
  scenario.push_ring_bytes = ring();
  scenario.async_pulls = chance(random, 0.4);
  if (chance(random, 0.12)) {
    Strike& strike = scenario.disasters.emplace_back();
    strike.what = static_cast<Disaster>(below(random, 3));
    strike.victim = static_cast<std::uint32_t>(
        below(random, strike.what == Disaster::kServerDies ? scenario.servers : scenario.workers));
    strike.delay = microseconds(small(random, 1500));
  }
  if (model == Model::kDeath) {
    scenario.outlives_nodes = true;
    const bool dies = chance(random, 0.9);
    Strike strike{.what = Disaster::kWorkerDies};
    strike.victim =
        static_cast<std::uint32_t>(below(random, scenario.workers - 1));  // the last one checks the end
    strike.delay = microseconds(small(random, 3000));
    scenario.disasters.clear();
    if (dies) scenario.disasters.push_back(strike);
  }
  // From a generator of its own, so that older seeds keep their meaning.
  std::mt19937_64 evictions(seed + 0x5eed);
  for (TableShape& table : scenario.tables) {
    const std::uint64_t parts = std::uint64_t{scenario.servers} * scenario.lanes;
    if (!table.moves && table.rows > 3 * parts && chance(evictions, 0.3))
      table.cache_rows = 2 * parts + below(evictions, table.rows - 3 * parts);
  }
  std::mt19937_64 key_spaces(seed + 0x5ba25e);
  for (TableShape& table : scenario.tables) table.sparse = !table.moves && chance(key_spaces, 0.3);
  if (chance(key_spaces, 0.5))
    scenario.keys_of_segment = 1 + static_cast<std::uint32_t>(below(key_spaces, 8));
  // Even seeds have no budgets, so that they keep their meaning from before there were any.
  std::mt19937_64 budgets(seed + 0xb0d9e7);
  const auto budget = [&] {
    return seed % 2 == 1 && chance(budgets, 0.6) ? std::exp2(small(budgets, 12)) / 16 : 0;
  };
  scenario.push_budget_mb_per_s = budget();
  scenario.update_budget_mb_per_s = budget();
  // A call sends what its caller has pushed.
  std::mt19937_64 calls(seed + 0xca11);
  scenario.calls = chance(calls, 0.2);
  for (TableShape& table : scenario.tables)
    table.shipped_ahead = (scenario.update_budget_mb_per_s > 0 || scenario.calls) &&
                          !consistency::rules_of(table.model).holds_updates_back;
  std::mt19937_64 encodings(seed + 0xe2c0);
  for (TableShape& table : scenario.tables) {
    // In every fourth seed, so that the others keep their meaning.
    if (!table.moves && seed % 4 == 3 && chance(encodings, 0.6))
      table.encoding =
          chance(encodings, 0.3) ? "packed" : fmt::format("packed(lists={})", 4 + below(encodings, 12));
  }
  // The other seeds keep their meaning.
  if (seed % 8 == 5) scenario.gathers = true;
  if (seed % 16 == 2) scenario.gathers = std::nullopt;
  scenario.pulls_by_handles = seed % 4 == 1;
  std::mt19937_64 nodes(seed + 0x40de);
  for (std::uint32_t worker = 0; worker < scenario.workers; ++worker)
    scenario.nodes.push_back(static_cast<std::uint32_t>(below(nodes, scenario.servers)));
  // Workers that rest let replicas grow old.
  std::mt19937_64 rests(seed + 0x4e57);
  scenario.rests = model == Model::kIntent && chance(rests, 0.6);
  // The last worker checks the end: its node does not die.
  if (model == Model::kDeath && chance(nodes, 0.5)) {
    if (scenario.disasters.empty()) scenario.disasters.emplace_back();
    scenario.disasters[0].what = Disaster::kNodeDies;
    scenario.disasters[0].victim =
        (scenario.nodes.back() + 1 + static_cast<std::uint32_t>(below(nodes, scenario.servers - 1))) %
        scenario.servers;
  }
  std::mt19937_64 seconds(seed + 0x2dea7);
  if (model == Model::kDeath && !scenario.disasters.empty() && scenario.workers > 2 && chance(seconds, 0.4)) {
    Strike second{.what = Disaster::kWorkerDies};
    second.victim = static_cast<std::uint32_t>(below(seconds, scenario.workers - 1));
    second.delay = scenario.disasters[0].delay + microseconds(small(seconds, 1000));
    scenario.disasters.push_back(second);
  }
  scenario.scheduler.seed = random();
  scenario.scheduler.pause_probability = chance(random, 0.5) ? 0 : 0.003;
  if (model == Model::kABsp) add_data_cursors(scenario, random);
  if (model == Model::kTrouble) add_trouble(scenario, random);
  if (model == Model::kChurn) add_churn(scenario, random);
  if (model == Model::kRows) add_rows(scenario, random);
  return scenario;
}

std::string to_string(const Strike& strike) {
  constexpr std::array kFates = {"dies", "is taken for dead", "is cut off", "is stopped, and taken for dead",
                                 "is asked to step aside"};
  const auto of = [&](const char* format) { return fmt::format(fmt::runtime(format), strike.victim); };
  const auto text = [&]() -> std::string {
    switch (strike.what) {
      case Disaster::kWorkerDies:
        return of("worker {} dies");
      case Disaster::kServerDies:
        if (strike.fate != Fate::kDies) {
          return fmt::format("copy {} of server {} {}", strike.copy, strike.victim,
                             kFates[static_cast<std::size_t>(strike.fate)]);
        }
        return strike.copy > 0 ? fmt::format("copy {} of server {} dies", strike.copy, strike.victim)
                               : of("server {} dies");
      case Disaster::kCopyDies:
        return of("some copy of server {} dies");
      case Disaster::kNodeDies:
        return of("node {} dies");
      case Disaster::kLinkBreaks:
        return of("a link of worker {} breaks");
      case Disaster::kServerLinkBreaks:
        return of("a link of server {} breaks");
      case Disaster::kWorkerStops:
        return of("worker {} is stopped");
      case Disaster::kServerStops:
        return of("server {} is stopped");
      case Disaster::kAllStop:
        return "all are stopped";
      case Disaster::kWorkerLacksMemory:
        return of("worker {} has no memory");
      case Disaster::kServerLacksMemory:
        return of("server {} has no memory");
      case Disaster::kWorkerIsReplaced:
        return fmt::format("worker {} {} after {} us{}, and is replaced", strike.victim,
                           kFates[static_cast<std::size_t>(strike.fate)],
                           std::chrono::duration_cast<microseconds>(strike.delay).count(),
                           strike.early ? " of the job" : "");
      case Disaster::kServerMoves:
        return of("server {} moves");
      case Disaster::kNodeIsMissed:
        return of("node {} is taken for dead");
      case Disaster::kStranger:
        return of("a stranger comes to server {}");
      case Disaster::kTraitor:
        break;
    }
    return of("worker {} breaks the rules");
  };
  const auto us = [](Duration duration) {
    return std::chrono::duration_cast<microseconds>(duration).count();
  };
  std::string all = text();
  if (strike.is_stop()) all += fmt::format(" for {} us", us(strike.length));
  if (strike.lacks_memory()) return all + fmt::format(" after {} regions", strike.regions);
  return all + fmt::format(" {} us after {}", us(strike.delay),
                           strike.early  ? "the beginning"
                           : strike.late ? "a worker has ended"
                                         : "all have joined");
}

std::string to_string(const Scenario& scenario) {
  std::string text = fmt::format(
      "{} servers of {} lanes{}, {} workers, {} clocks, barrier every {}, rings of {} and {} bytes, {}{}",
      scenario.servers, scenario.lanes, scenario.lane_tasks ? " (own tasks)" : "", scenario.workers,
      scenario.clocks, scenario.barrier_every, scenario.inbox_bytes, scenario.push_ring_bytes,
      scenario.network.mapped ? "mapped memory" : "no mapped memory",
      scenario.read_path == ReadPath::kCached    ? ", cached reads"
      : scenario.read_path == ReadPath::kInPlace ? ", reads in place"
                                                 : "");
  if (scenario.rests) text += ", workers that rest";
  if (scenario.calls) text += ", calls of functions";
  if (scenario.push_budget_mb_per_s > 0)
    text += fmt::format(", pushes of {} MB/s", scenario.push_budget_mb_per_s);
  if (scenario.update_budget_mb_per_s > 0)
    text += fmt::format(", updates of {} MB/s within a clock", scenario.update_budget_mb_per_s);
  const bool moves = std::any_of(scenario.tables.begin(), scenario.tables.end(),
                                 [](const TableShape& table) { return table.moves; });
  for (std::uint32_t worker = 0; worker < scenario.workers; ++worker) {
    if (moves) text += fmt::format("; worker {} is of node {}", worker, scenario.nodes[worker]);
    if (scenario.leaves_at[worker] < scenario.clocks)
      text += fmt::format("; worker {} leaves at clock {}", worker, scenario.leaves_at[worker]);
    if (scenario.slowness[worker] > 1)
      text += fmt::format("; worker {} is {} times slower", worker, scenario.slowness[worker]);
  }
  for (const TableShape& table : scenario.tables) {
    text += fmt::format("; table {}, {} rows of {} values", to_string(table.model), table.rows,
                        table.width(scenario.workers + scenario.spares));
    if (table.sparse)
      text += fmt::format(" of sparse keys, {} in a segment at most", scenario.keys_of_segment);
    if (table.moves) text += table.intents ? ", which move by intents" : ", which move";
    if (table.cache_rows < table.rows) text += fmt::format(", {} of them cached", table.cache_rows);
  }
  if (const auto& churn = scenario.churn) {
    text += fmt::format(
        "; {} rows of {} values under {}, {} in a segment at most, that go after {} clocks and "
        "come in turns of {}, encoding {}, {} of them cached",
        churn->rows, churn->width, to_string(churn->model), scenario.keys_of_segment, churn->age, churn->turn,
        churn->encoding, std::min(churn->rows, churn->cache_rows));
    if (churn->pairs) text += ", keys that look alike";
    if (!churn->eviction.empty()) text += ", eviction " + churn->eviction;
  }
  for (const RowTable& table : scenario.row_tables) {
    text += fmt::format("; {} table {}, {} rows, rule {}", table.sparse ? "sparse" : "dense",
                        to_string(table.model), table.rows, name_of(table.rule));
    if (table.least > 1) text += fmt::format(", rows after {} messages", table.least);
    if (table.probability < 1) text += ", rows by chance";
    if (table.filter != "none") text += ", filter " + table.filter;
    if (table.encoding != "auto") text += ", encoding " + table.encoding;
    if (table.cache_rows < table.rows) text += fmt::format(", {} of them cached", table.cache_rows);
  }
  if (!scenario.examples.empty()) {
    for (const std::uint64_t examples : scenario.examples) text += fmt::format(", {} examples", examples);
    text += fmt::format(" in mini-batches of {}, {} us each", scenario.mini_batch,
                        std::chrono::duration_cast<microseconds>(scenario.mini_batch_time).count());
  }
  if (scenario.pulls_by_handles) text += "; rows are pulled by handles";
  if (!scenario.gathers) text += "; rows are gathered where that takes less time";
  if (scenario.gathers == true) text += "; rows are gathered";
  if (scenario.copies > 1) text += fmt::format("; each server has {} copies", scenario.copies);
  if (scenario.lag_of_copies > Duration(0)) {
    text += fmt::format(", behind by up to {} us",
                        std::chrono::duration_cast<microseconds>(scenario.lag_of_copies).count());
  }
  if (scenario.repairs) {
    const server::ImageGrain& grain = scenario.image_grain;
    text += fmt::format(
        ", others join, {} times slower, by blocks of {} bytes in buffers of {}, {} at a time, {} us from "
        "one to "
        "the next, after {} us at most; {} bytes of the log may wait for them",
        scenario.slowness_of_who_joins, grain.block_bytes, grain.buffer_bytes, grain.bytes_a_turn,
        grain.between_messages.count(), grain.waits_for_clock.count(), grain.spare_log_bytes);
  }
  if (scenario.outlives_nodes) text += "; the job outlives nodes";
  if (!scenario.resume.empty()) text += "; it goes on from " + scenario.resume;
  for (const Strike& strike : scenario.disasters) text += "; " + to_string(strike);
  return text;
}

}  // namespace verbena::simulation
