#include "cluster/controller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "cluster/stored_configuration.hpp"

namespace verbena::cluster {

std::optional<Controller::Known> Controller::read(TimePoint now) {
  const auto answer = state_.execute(KeyRange{.key = prefix_ + kConfigurationKey}, now);
  if (!answer.ok()) return std::nullopt;
  const auto& entries = std::get<Snapshot>(*answer).entries;
  if (entries.empty()) return std::nullopt;
  absl::StatusOr<Configuration> configuration = decode_configuration(entries.front().value);
  if (!configuration.ok()) return std::nullopt;
  if (first_.number == 0) first_ = *configuration;
  return Known{*std::move(configuration), entries.front().modified};
}

absl::StatusOr<Configuration> Controller::remove(const Copy& ended, TimePoint now) {
  std::optional<Known> known = read(now);
  if (!known) return absl::FailedPreconditionError("the job's processes have not met yet");
  if (ended.server >= first_.servers.size() || ended.copy >= first_.servers[ended.server].size()) {
    return absl::FailedPreconditionError(
        fmt::format("there is no copy {} of server {}", ended.copy, ended.server));
  }
  Configuration next = known->configuration;
  ++next.number;
  Configuration::Chain& chain = next.servers[ended.server];
  std::erase(chain, first_.servers[ended.server][ended.copy]);
  if (chain.empty())
    return absl::DataLossError(fmt::format("server {} is lost with all its copies", ended.server));
  const std::string key = prefix_ + kConfigurationKey;
  const auto done = state_.execute(
      Transaction{.conditions = {{.key = key, .of = Condition::Of::kModified, .is = known->modified}},
                  .puts = {{.key = key, .value = encode(next)}},
                  .deletes = {}},
      now);
  if (!done.ok()) return done.status();
  if (!std::get<TransactionResult>(*done).succeeded)
    return absl::InternalError("somebody else has changed the configuration");
  return next;
}

std::vector<Controller::Suspect> Controller::take_suspects(TimePoint now) {
  std::vector<Suspect> suspects;
  const std::string prefix = prefix_ + kSuspectsPrefix;
  const auto answer = state_.execute(KeyRange{.key = prefix, .is_prefix = true}, now);
  if (!answer.ok()) return suspects;
  const std::vector<Entry>& entries = std::get<Snapshot>(*answer).entries;
  if (entries.size() == told_.size()) return suspects;
  const std::optional<Known> known = read(now);
  if (!known) return suspects;
  for (const Entry& entry : entries) {
    const std::string address = entry.key.substr(prefix.size());
    if (!told_.insert(address).second) continue;
    for (std::uint32_t server = 0; server < first_.servers.size(); ++server) {
      const Configuration::Chain& first = first_.servers[server];
      const Configuration::Chain& chain = known->configuration.servers[server];
      const auto place = std::find(first.begin(), first.end(), address);
      if (place == first.end() || chain.size() < 2 ||
          std::find(chain.begin(), chain.end(), address) == chain.end())
        continue;
      suspects.push_back({{server, static_cast<std::uint32_t>(place - first.begin())}, entry.value});
    }
  }
  return suspects;
}

}  // namespace verbena::cluster
