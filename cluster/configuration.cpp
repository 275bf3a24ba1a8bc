#include "cluster/configuration.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace verbena::cluster {

using Json = nlohmann::json;

namespace {

constexpr std::size_t kMostConfigurationBytes = 256 << 10;
constexpr std::size_t kMostServers = 4096;
constexpr std::size_t kMostCopies = 16;

absl::Status wrong(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("a configuration of a job: {}", what));
}

/// At the end, where they need not be named.
void drop_nobody(std::vector<std::string>& joining) {
  while (!joining.empty() && joining.back().empty()) joining.pop_back();
}

}  // namespace

std::string encode(const Configuration& configuration) {
  std::vector<std::string> joining = configuration.joining;
  drop_nobody(joining);
  return Json{
      {"number", configuration.number}, {"servers", configuration.servers}, {"joining", std::move(joining)}}
      .dump();
}

Configuration::Chain Configuration::all_of(std::uint32_t server) const {
  Chain all = servers[server];
  if (const std::string newcomer = joining_of(server); !newcomer.empty()) all.push_back(newcomer);
  return all;
}

absl::StatusOr<Configuration> decode_configuration(std::string_view text) {
  if (text.size() > kMostConfigurationBytes) return wrong(fmt::format("has {} bytes", text.size()));
  // The parser's own limit of depth is the stack: nothing here is deeper than this.
  constexpr int kMostDepth = 4;
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kMostDepth; };
  const Json json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong("is no JSON object");
  const auto number = json.find("number");
  const auto servers = json.find("servers");
  if (number == json.end() || !number->is_number_unsigned() || *number == 0U) return wrong("has no number");
  if (servers == json.end() || !servers->is_array() || servers->empty() || servers->size() > kMostServers)
    return wrong("has no list of servers");
  Configuration configuration{.number = number->get<std::uint64_t>(), .servers = {}, .joining = {}};
  for (const Json& chain : *servers) {
    if (!chain.is_array() || chain.size() > kMostCopies)
      return wrong("has a server that is no list of addresses");
    Configuration::Chain& addresses = configuration.servers.emplace_back();
    for (const Json& address : chain) {
      if (!address.is_string()) return wrong("has an address that is no text");
      addresses.push_back(address.get<std::string>());
    }
  }
  const auto joining = json.find("joining");
  if (joining == json.end() || !joining->is_array() || joining->size() > configuration.servers.size())
    return wrong("has no list of those that join");
  for (const Json& address : *joining) {
    if (!address.is_string()) return wrong("has an address that is no text");
    configuration.joining.push_back(address.get<std::string>());
  }
  drop_nobody(configuration.joining);
  return configuration;
}

}  // namespace verbena::cluster
