#include "tests/cluster/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace verbena::simulation {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PushBegins, worker, table, key, delta, last)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PushEnded, worker, table, keys)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PullBegins, worker, pull, table, keys)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PullEnded, worker, pull, table, clock, barrier_clock, claimed, monotone,
                                   keys, rows)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClockBegins, worker)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClockEnded, worker, clock)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExamplesAsked, worker, clock)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExamplesTaken, worker, clock, first, last)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TableAtTheEnd, worker, pull, table, rows, lost)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerLeaves, worker)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Complaint, what)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Death, victim)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Replacement, former, worker, clock)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(UpdatesSent, worker, table)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RowsMarked, worker, table, keys)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BarrierBegins, worker)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RowRead, reader, number, table, clock, barrier_clock, how)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RowsFound, read, keys, rows)

}  // namespace verbena::simulation

namespace verbena::testing {
namespace {

using nlohmann::json;
using simulation::Event;

class RecordingWorld final : public simulation::World {
 public:
  RecordingWorld(std::function<std::uint64_t()> next_number, Recording& recording)
      : next_number_(std::move(next_number)), recording_(recording) {}
  absl::Status note(Event event) override {
    recording_.push_back({next_number_(), std::move(event)});
    return absl::OkStatus();
  }
  void compute(transport::Duration time) override { std::this_thread::sleep_for(time); }

 private:
  const std::function<std::uint64_t()> next_number_;
  Recording& recording_;
};

/// An event of the kind with that index.
template <std::size_t... kIndices>
Event parse_event(std::size_t kind, const json& fields, std::index_sequence<kIndices...> /*all*/) {
  Event event;
  const bool known =
      ((kind == kIndices && (event = fields.get<std::variant_alternative_t<kIndices, Event>>(), true)) ||
       ...);
  if (!known) throw std::out_of_range("no such kind of event");
  return event;
}

}  // namespace

simulation::Scenario native_scenario(simulation::Model model, std::uint64_t seed) {
  simulation::Scenario scenario = simulation::make_scenario(model, seed);
  scenario.disasters.clear();
  scenario.virtual_time = false;
  scenario.scheduler.pause_probability = 1;  // a worker may wait for a processor for any time
  return scenario;
}

std::vector<simulation::Model> recorded_models() {
  std::vector<simulation::Model> models(simulation::kModels.begin(), simulation::kModels.end());
  std::erase(models, simulation::Model::kTrouble);
  std::erase(models, simulation::Model::kChurn);
  std::erase(models, simulation::Model::kCheckpoints);
  std::erase(models, simulation::Model::kReplacement);
  std::erase(models, simulation::Model::kRemoteReplacement);
  std::erase(models, simulation::Model::kSavedReplacement);
  std::erase(models, simulation::Model::kMending);
  std::erase(models, simulation::Model::kHomes);  // without deaths it is kDeath
  std::erase(models, simulation::Model::kBackup);
  return models;
}

absl::Status record_workload(const simulation::Scenario& scenario, Session& session,
                             std::function<std::uint64_t()> next_number, Recording& recording) {
  RecordingWorld world(std::move(next_number), recording);
  absl::Status status = simulation::run_workload(world, scenario, session);
  absl::Status noted = world.note(simulation::WorkerLeaves{session.rank()});
  return status.ok() ? noted : status;
}

std::optional<std::string> check(const std::vector<Recording>& workers, simulation::History& history) {
  std::vector<const NumberedEvent*> all;
  for (const Recording& worker : workers) {
    for (const NumberedEvent& event : worker) all.push_back(&event);
  }
  std::sort(all.begin(), all.end(),
            [](const NumberedEvent* a, const NumberedEvent* b) { return a->number < b->number; });
  for (const NumberedEvent* event : all) {
    const transport::TimePoint when{std::chrono::nanoseconds(event->number)};
    if (auto wrong = history.hear(event->event, when)) return wrong;
  }
  return history.check_the_end();
}

absl::Status write_recording(const Recording& recording, const std::string& path) {
  std::ofstream file(path);
  for (const NumberedEvent& event : recording) {
    const json fields = std::visit([](const auto& one) { return json(one); }, event.event);
    file << json::array({event.number, event.event.index(), fields}) << '\n';
  }
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(fmt::format("{}: cannot write", path));
}

absl::StatusOr<Recording> read_recording(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot open", path));
  Recording recording;
  constexpr std::make_index_sequence<std::variant_size_v<Event>> kKinds;
  try {
    for (std::string line; std::getline(file, line);) {
      const json event = json::parse(line);
      recording.push_back({event.at(0).get<std::uint64_t>(),
                           parse_event(event.at(1).get<std::size_t>(), event.at(2), kKinds)});
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(fmt::format("{}:{}: {}", path, recording.size() + 1, error.what()));
  }
  return recording;
}

}  // namespace verbena::testing
