#include "job/meeting/etcd_place.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/printable.hpp"
#include "transport/host_port.hpp"

namespace verbena::job {
namespace {

constexpr std::string_view kSchemeEnd = "://";
constexpr std::size_t kMostNameBytes = 200;

/// Of a text, and of etcd's endpoints.
struct Scheme {
  std::string_view written;
  std::string_view of_endpoints;
};
constexpr Scheme kSchemes[] = {{"etcd://", "http://"}, {"etcd+https://", "https://"}};

bool is_name(std::string_view name) {
  const auto is_usual = [](char each) {
    return absl::ascii_isalnum(static_cast<unsigned char>(each)) ||
           std::string_view("-_./").find(each) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kMostNameBytes && name.front() != '/' && name.back() != '/' &&
         std::ranges::all_of(name, is_usual);
}

}  // namespace

bool has_scheme(std::string_view text) {
  return text.find(kSchemeEnd) != std::string_view::npos;
}

absl::StatusOr<EtcdPlace> parse_etcd_place(std::string_view text) {
  const auto refused = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": {}; expected etcd://HOST:PORT[,HOST:PORT...]/JOB, or etcd+https://...",
                    base::printable(text), what));
  };
  const auto* const scheme =
      std::ranges::find_if(kSchemes, [&](const Scheme& each) { return text.starts_with(each.written); });
  if (scheme == std::ranges::end(kSchemes))
    return refused(fmt::format("nobody is found by \"{}\"",
                               base::printable(text.substr(0, text.find(kSchemeEnd) + kSchemeEnd.size()))));
  const std::string_view rest = text.substr(scheme->written.size());
  const std::size_t slash = rest.find('/');
  const std::string_view name = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  EtcdPlace place;
  for (const std::string& member :
       std::vector<std::string>(absl::StrSplit(std::string(rest.substr(0, slash)), ','))) {
    const absl::StatusOr<transport::HostPort> at = transport::parse_host_port(member);
    if (!at.ok() || at->host.empty() || at->port == 0 || member.find('@') != std::string::npos)
      return refused(fmt::format("\"{}\" is no host and port of etcd", base::printable(member)));
    place.etcd.endpoints.push_back(fmt::format("{}{}", scheme->of_endpoints, member));
  }
  if (name.empty()) return refused("the name of the job is missing");
  if (!is_name(name))
    return refused(
        fmt::format("\"{}\" is no name of a job: letters, digits, -, _, . and, between them, / are",
                    base::printable(name)));
  place.job = name;
  return place;
}

std::string to_string(const EtcdPlace& place) {
  std::vector<std::string_view> members;
  std::string_view written;
  for (const std::string_view endpoint : place.etcd.endpoints) {
    for (const Scheme& scheme : kSchemes) {
      if (!endpoint.starts_with(scheme.of_endpoints)) continue;
      written = scheme.written;
      members.push_back(endpoint.substr(scheme.of_endpoints.size()));
    }
  }
  return fmt::format("{}{}/{}", written, fmt::join(members, ","), place.job);
}

std::string key_of(const EtcdPlace& place) {
  return fmt::format("/verbena/{}/rank-0", place.job);
}

}  // namespace verbena::job
