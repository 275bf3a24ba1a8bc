#include "apps/doctor/report.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace verbena::apps::doctor {
namespace {

using Level = Finding::Level;

constexpr int kSchema = 1;
constexpr int kLevelWidth = 7;     // "problem"
constexpr int kSubjectWidth = 13;  // "locked memory"
constexpr int kIndent = kLevelWidth + 2 + kSubjectWidth + 2;

fmt::text_style style_of(Level level) {
  switch (level) {
    case Level::kOk:
      return fmt::fg(fmt::terminal_color::green);
    case Level::kNote:
      return {};
    case Level::kWarning:
      return fmt::fg(fmt::terminal_color::yellow);
    case Level::kProblem:
      return fmt::fg(fmt::terminal_color::red);
  }
  return {};
}

std::string paint(const std::string& text, fmt::text_style style, bool colour) {
  return colour ? fmt::format(style, "{}", text) : text;
}

std::string verdict(const Diagnosis& diagnosis) {
  if (diagnosis.verbs) return "verbs will work on this host";
  if (diagnosis.shared_memory && diagnosis.tcp)
    return "verbs will not work on this host, shared memory and tcp do";
  if (diagnosis.shared_memory) return "verbs will not work on this host, nor will tcp; shared memory does";
  return diagnosis.tcp ? "verbs will not work on this host, nor will shared memory; tcp does"
                       : "neither verbs nor shared memory nor tcp will work on this host";
}

nlohmann::json to_json(const KernelModule& module) {
  return {{"loaded", module.loaded}, {"available", module.available}};
}

nlohmann::json to_json(const std::optional<std::uint64_t>& limit) {
  return limit ? nlohmann::json(*limit) : nlohmann::json();
}

nlohmann::json to_json(const Host& host) {
  nlohmann::json interfaces = nlohmann::json::array();
  for (const NetworkInterface& each : host.interfaces) {
    interfaces.push_back({{"name", each.name},
                          {"up", each.up},
                          {"carrier", each.carrier},
                          {"physical", each.physical},
                          {"default_route", each.default_route},
                          {"mtu_bytes", each.mtu_bytes}});
  }
  return {{"kernel", host.kernel_release},
          {"distribution", host.distribution},
          {"wsl", host.wsl},
          {"container", host.container},
          {"user_namespace", host.user_namespace},
          {"seccomp", host.seccomp},
          {"modules",
           {{"rdma_rxe", to_json(host.rdma_rxe)},
            {"ib_uverbs", to_json(host.ib_uverbs)},
            {"rdma_ucm", to_json(host.rdma_ucm)}}},
          {"may_lock_memory", host.may_lock_memory},
          {"locked_bytes_limit", to_json(host.locked_bytes_limit)},
          {"locked_bytes_hard_limit", to_json(host.locked_bytes_hard_limit)},
          {"huge_page_bytes", host.huge_page_bytes},
          {"huge_pages", host.huge_pages},
          {"huge_pages_free", host.huge_pages_free},
          {"transparent_huge_pages", host.transparent_huge_pages},
          {"interfaces", std::move(interfaces)}};
}

nlohmann::json to_json(const transport::VerbsDevice::Port& port) {
  nlohmann::json gids = nlohmann::json::array();
  for (const transport::VerbsDevice::Gid& gid : port.gids) {
    gids.push_back(
        {{"index", gid.index}, {"type", gid.type}, {"address", gid.text}, {"interface", gid.interface}});
  }
  return {{"number", port.number},
          {"state", port.state},
          {"link_layer", port.link_layer},
          {"mtu_bytes", port.mtu_bytes},
          {"max_mtu_bytes", port.max_mtu_bytes},
          {"obstacle", port.obstacle},
          {"address", port.address},
          {"gids", std::move(gids)}};
}

nlohmann::json devices_to_json(const Facts& facts) {
  nlohmann::json devices = nlohmann::json::array();
  for (const transport::VerbsDevice& device : facts.verbs.devices) {
    nlohmann::json ports = nlohmann::json::array();
    for (const transport::VerbsDevice::Port& port : device.ports) ports.push_back(to_json(port));
    devices.push_back({{"name", device.name},
                       {"transport", device.transport},
                       {"memory_windows", device.windows},
                       {"obstacle", device.obstacle},
                       {"ports", std::move(ports)}});
  }
  return devices;
}

nlohmann::json to_json(const Finding& finding) {
  nlohmann::json remedies = nlohmann::json::array();
  for (const Remedy& remedy : finding.remedies) {
    remedies.push_back({{"what", remedy.what}, {"commands", remedy.commands}});
  }
  return {{"subject", finding.subject},
          {"level", std::string(to_string(finding.level))},
          {"text", finding.text},
          {"details", finding.details},
          {"remedies", std::move(remedies)}};
}

nlohmann::json choice_to_json(const Facts& facts, const Diagnosis& diagnosis) {
  if (!diagnosis.choice) return {};
  const transport::VerbsDevice& device = facts.verbs.devices[diagnosis.choice->device];
  const transport::VerbsDevice::Port& port = device.ports[diagnosis.choice->port];
  return {{"device", device.name},   {"port", port.number},         {"gid", diagnosis.gid},
          {"address", port.address}, {"mtu_bytes", port.mtu_bytes}, {"reason", diagnosis.choice_reason}};
}

}  // namespace

std::string to_text(const Facts& facts, const Diagnosis& diagnosis, bool colour) {
  std::string out;
  for (const Finding& finding : diagnosis.findings) {
    const std::string level = fmt::format("{:<{}}", to_string(finding.level), kLevelWidth);
    out += fmt::format("{}  {:<{}}  {}\n", paint(level, style_of(finding.level), colour), finding.subject,
                       kSubjectWidth, finding.text);
    for (const std::string& detail : finding.details) out += fmt::format("{:{}}{}\n", "", kIndent, detail);
    for (const Remedy& remedy : finding.remedies) {
      out += fmt::format("{:{}}→ {}{}\n", "", kIndent, remedy.what, remedy.commands.empty() ? "" : ":");
      for (const std::string& command : remedy.commands) {
        out += fmt::format("{:{}}{}\n", "", kIndent + 4, paint(command, fmt::emphasis::bold, colour));
      }
    }
  }
  out += "\n";
  if (diagnosis.choice) {
    const transport::VerbsDevice& device = facts.verbs.devices[diagnosis.choice->device];
    const transport::VerbsDevice::Port& port = device.ports[diagnosis.choice->port];
    out += fmt::format("would use: {} port {}, {}", device.name, port.number, diagnosis.choice_reason);
    if (!diagnosis.gid.empty()) out += fmt::format("; GID {}", diagnosis.gid);
    out += "\n";
  }
  const Level level = diagnosis.verbs ? Level::kOk : Level::kProblem;
  return out + paint(verdict(diagnosis), style_of(level) | fmt::emphasis::bold, colour) + "\n";
}

nlohmann::json to_json(const Facts& facts, const Diagnosis& diagnosis) {
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& finding : diagnosis.findings) findings.push_back(to_json(finding));
  return {{"schema", kSchema},
          {"verbs", diagnosis.verbs},
          {"shared_memory", diagnosis.shared_memory},
          {"tcp", diagnosis.tcp},
          {"would_use", choice_to_json(facts, diagnosis)},
          {"findings", std::move(findings)},
          {"devices", devices_to_json(facts)},
          {"host", to_json(facts.host)}};
}

}  // namespace verbena::apps::doctor
