#include "cluster/account.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cluster/json_fields.hpp"

namespace verbena::cluster {

using Json = nlohmann::json;

namespace {

constexpr const char* kOwnPid = "pid";
constexpr const char* kOwnHost = "host";
constexpr const char* kOwnMachine = "machine";
constexpr const char* kOwnAddress = "address";

}  // namespace

/// In two lines, of which the second one, the configuration, may be much longer.
std::string encode(const Account& account) {
  return text_of(Json{{kOwnPid, account.pid},
                      {kOwnHost, account.host},
                      {kOwnMachine, account.machine},
                      {kOwnAddress, account.address}}) +
         "\n" + encode(account.configuration);
}

absl::StatusOr<Account> decode_account(std::string_view text) {
  const auto wrong = [](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("what a process says of itself: {}", what));
  };
  const std::size_t border = text.find('\n');
  if (border == std::string_view::npos) return wrong("expected two lines");
  const std::optional<Json> object = short_object(text.substr(0, border));
  if (!object) return wrong("expected a JSON object");
  const auto pid = number_in(*object, kOwnPid);
  auto host = text_in(*object, kOwnHost);
  auto machine = text_in(*object, kOwnMachine);
  auto address = text_in(*object, kOwnAddress);
  if (!pid || !host || !machine || !address)
    return wrong("expected its number, its host, by two names, and its address");
  absl::StatusOr<Configuration> configuration = decode_configuration(text.substr(border + 1));
  if (!configuration.ok()) return wrong(std::string(configuration.status().message()));
  return Account{.pid = *pid,
                 .host = *std::move(host),
                 .machine = *std::move(machine),
                 .address = *std::move(address),
                 .configuration = *std::move(configuration)};
}

}  // namespace verbena::cluster
