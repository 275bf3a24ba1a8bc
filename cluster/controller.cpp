#include "cluster/controller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <variant>

#include "cluster/stored_configuration.hpp"

namespace verbena::cluster {
namespace {

/// "3/7": server and copy.
std::optional<Controller::Copy> parse_copy(std::string_view text) {
  Controller::Copy copy;
  const char* const end = text.data() + text.size();
  const auto server = std::from_chars(text.data(), end, copy.server);
  if (server.ec != std::errc() || server.ptr == end || *server.ptr != '/') return std::nullopt;
  const auto number = std::from_chars(server.ptr + 1, end, copy.copy);
  if (number.ec != std::errc() || number.ptr != end) return std::nullopt;
  return copy;
}

}  // namespace

std::optional<Controller::Known> Controller::read(TimePoint now) {
  const auto answer = state_.execute(KeyRange{.key = prefix_ + kConfigurationKey}, now);
  if (!answer.ok()) return std::nullopt;
  const auto& entries = std::get<Snapshot>(*answer).entries;
  if (entries.empty()) return std::nullopt;
  absl::StatusOr<Configuration> configuration = decode_configuration(entries.front().value);
  if (!configuration.ok()) return std::nullopt;
  configuration->joining.resize(configuration->servers.size());
  if (addresses_.empty()) {
    for (std::uint32_t server = 0; server < configuration->servers.size(); ++server) {
      const Configuration::Chain& chain = configuration->servers[server];
      for (std::uint32_t copy = 0; copy < chain.size(); ++copy) addresses_[{server, copy}] = chain[copy];
    }
  }
  return Known{*std::move(configuration), entries.front().modified};
}

std::vector<Entry> Controller::entries_below(const std::string& prefix, TimePoint now) {
  auto answer = state_.execute(KeyRange{.key = prefix_ + prefix, .is_prefix = true}, now);
  if (!answer.ok()) return {};
  std::vector<Entry> entries = std::move(std::get<Snapshot>(*answer).entries);
  for (Entry& entry : entries) entry.key.erase(0, prefix_.size() + prefix.size());
  return entries;
}

absl::Status Controller::put(const Known& known, const Configuration& next, const std::string& reason,
                             TimePoint now) {
  const std::string key = prefix_ + kConfigurationKey;
  Transaction transaction{.conditions = {{.key = key, .of = Condition::Of::kModified, .is = known.modified}},
                          .puts = {{.key = key, .value = encode(next)}},
                          .deletes = {}};
  if (!reason.empty()) transaction.deletes.push_back(prefix_ + reason);
  const auto done = state_.execute(transaction, now);
  if (!done.ok()) return done.status();
  if (!std::get<TransactionResult>(*done).succeeded)
    return absl::InternalError("somebody else has changed the configuration");
  return absl::OkStatus();
}

std::optional<Controller::Copy> Controller::copy_at(const std::string& address) const {
  for (const auto& [copy, its_address] : addresses_) {
    if (its_address == address) return copy;
  }
  return std::nullopt;
}

absl::StatusOr<Configuration> Controller::remove(const Copy& ended, TimePoint now) {
  admit(now);  // who has said so may be needed at once
  const std::optional<Known> known = read(now);
  if (!known) return absl::FailedPreconditionError("the job's processes have not met yet");
  ended_.insert(ended);
  const auto found = addresses_.find(ended);
  if (found == addresses_.end()) {
    return absl::FailedPreconditionError(
        fmt::format("there is no copy {} of server {}", ended.copy, ended.server));
  }
  Configuration next = known->configuration;
  ++next.number;
  Configuration::Chain& chain = next.servers[ended.server];
  std::string& joining = next.joining[ended.server];
  if (joining == found->second || (!chain.empty() && chain.back() == found->second)) joining.clear();
  std::erase(chain, found->second);
  if (chain.empty())
    return absl::DataLossError(fmt::format("server {} is lost with all its copies", ended.server));
  // First this, and then others may hear of it: whoever still finds the number before it reads what is as
  // good as new.
  decide_(next.number);
  if (absl::Status status = put(*known, next, "", now); !status.ok()) return status;
  return next;
}

std::optional<Configuration> Controller::newest(TimePoint now) {
  std::optional<Known> known = read(now);
  if (!known) return std::nullopt;
  return std::move(known->configuration);
}

std::optional<Controller::Chains> Controller::chains(TimePoint now) {
  const std::optional<Known> known = read(now);
  if (!known) return std::nullopt;
  Chains chains{.number = known->configuration.number, .servers = {}};
  for (const Configuration::Chain& chain : known->configuration.servers) {
    std::vector<Copy>& copies = chains.servers.emplace_back();
    for (const std::string& address : chain) {
      if (const std::optional<Copy> copy = copy_at(address)) copies.push_back(*copy);
    }
  }
  return chains;
}

std::vector<Controller::Copy> Controller::take_joined(TimePoint now) {
  admit(now);
  return std::exchange(joined_, {});
}

void Controller::admit(TimePoint now) {
  for (const Entry& entry : entries_below(kJoinedPrefix, now)) {
    if (const std::optional<Known> known = read(now)) admit_joined(*known, entry, now);
  }
  for (const Entry& entry : entries_below(kNewcomersPrefix, now)) {
    if (const std::optional<Known> known = read(now)) let_join(*known, entry, now);
  }
}

void Controller::admit_joined(const Known& known, const Entry& entry, TimePoint now) {
  const std::optional<Copy> copy = copy_at(entry.key);
  Configuration next = known.configuration;
  if (!copy || next.joining[copy->server] != entry.key) return forget(kJoinedPrefix + entry.key, now);
  ++next.number;
  next.servers[copy->server].push_back(std::exchange(next.joining[copy->server], ""));
  if (put(known, next, kJoinedPrefix + entry.key, now).ok()) joined_.push_back(*copy);
}

void Controller::let_join(const Known& known, const Entry& entry, TimePoint now) {
  const std::optional<Copy> copy = parse_copy(entry.key);
  Configuration next = known.configuration;
  // What one that has ended has said came late.
  const bool may_join = copy && !ended_.contains(*copy) && copy->server < next.servers.size() &&
                        !next.servers[copy->server].empty();
  if (!may_join) return forget(kNewcomersPrefix + entry.key, now);
  if (!next.joining[copy->server].empty()) return;  // later
  ++next.number;
  next.joining[copy->server] = entry.value;
  if (put(known, next, kNewcomersPrefix + entry.key, now).ok()) addresses_[*copy] = entry.value;
}

/// An entry that says nothing new, or nothing that can be.
void Controller::forget(const std::string& key, TimePoint now) {
  state_.execute(Transaction{.conditions = {}, .puts = {}, .deletes = {prefix_ + key}}, now).IgnoreError();
}

std::vector<Controller::Suspect> Controller::take_suspects(TimePoint now) {
  std::vector<Suspect> suspects;
  const std::vector<Entry> entries = entries_below(kSuspectsPrefix, now);
  if (entries.size() == told_.size()) return suspects;
  if (!read(now)) return suspects;
  for (const Entry& entry : entries) {
    if (!told_.insert(entry.key).second) continue;
    if (const std::optional<Copy> copy = replaceable_at(entry.key, now))
      suspects.push_back({*copy, entry.value});
  }
  return suspects;
}

absl::StatusOr<Controller::Copy> Controller::may_leave(std::uint32_t server,
                                                       std::optional<std::uint32_t> copy, TimePoint now) {
  admit(now);  // who has said so may be needed at once
  const std::optional<Chains> known = chains(now);
  if (!known) return absl::FailedPreconditionError("the job's processes have not met yet");
  if (server >= known->servers.size()) {
    return absl::InvalidArgumentError(
        fmt::format("there is no server {}: expected 0 to {}", server, known->servers.size() - 1));
  }
  const std::vector<Copy>& chain = known->servers[server];
  std::string all;
  std::optional<Copy> found;
  for (const Copy& one : chain) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", one.copy);
    if (!found && one.copy == copy.value_or(one.copy)) found = one;
  }
  if (!found) {
    return absl::InvalidArgumentError(
        fmt::format("server {} has no copy {} that has all that the others have: expected one of {}", server,
                    *copy, all));
  }
  if (chain.size() > 1) return *found;
  return absl::FailedPreconditionError(
      fmt::format("copy {} of server {} is the only one that has all of it{}", found->copy, server,
                  is_being_joined(server, now) ? ": another one joins, and may have all of it soon" : ""));
}

bool Controller::is_being_joined(std::uint32_t server, TimePoint now) {
  const std::optional<Known> known = read(now);
  return known && server < known->configuration.joining.size() &&
         !known->configuration.joining[server].empty();
}

std::optional<Controller::Copy> Controller::replaceable_at(const std::string& address, TimePoint now) {
  const std::optional<Known> known = read(now);
  const std::optional<Copy> copy = known ? copy_at(address) : std::nullopt;
  if (!copy) return std::nullopt;
  const Configuration::Chain& chain = known->configuration.servers[copy->server];
  const bool is_joining = known->configuration.joining[copy->server] == address;
  const bool is_in_chain = std::find(chain.begin(), chain.end(), address) != chain.end();
  return is_joining || (is_in_chain && chain.size() > 1) ? copy : std::nullopt;
}

}  // namespace verbena::cluster
