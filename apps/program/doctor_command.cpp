#include "apps/program/doctor_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/doctor/diagnosis.hpp"
#include "apps/doctor/report.hpp"
#include "apps/options/numbers.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/terminal.hpp"
#include "job/child_message.hpp"
#include "transport/backends.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::apps {
namespace {

using doctor::Facts;
using doctor::Trial;

constexpr int kSharedMemoryOnly = 1;
constexpr int kNothingWorks = 3;
static_assert(kSharedMemoryOnly != kExitUsage && kNothingWorks != kExitUsage);

struct DoctorCommand {
  std::string device;
  std::uint32_t device_port = 0;
  bool json = false;
};

Trial try_verbs(const Facts& facts, const doctor::PortChoice& choice) {
  const transport::VerbsDevice& device = facts.verbs.devices[choice.device];
  transport::VerbsOptions options = facts.wanted;
  options.device = device.name;
  options.port = device.ports[choice.port].number;
  // One thread drives both ends: so connect() must not wait for the answer.
  options.answer_patience = std::chrono::milliseconds(0);
  const auto secret = transport::Secret::random();
  if (secret.ok()) options.secret = *secret;
  const auto make = [options]() -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
    return transport::make_verbs_transport(options);
  };
  const std::string anywhere = transport::verbs::backend().fresh_address("");
  return doctor::try_transport(make, anywhere, [&](const transport::Transport& listener) {
    std::string address = listener.listening_address();
    return transport::host_of(address).empty() ? std::string() : address;
  });
}

Trial try_shared_memory() {
  const std::string address = transport::shm::backend().fresh_address(fmt::format("doctor-{}", ::getpid()));
  // As above: one thread drives both ends.
  const auto make = [] {
    return transport::make_shm_transport({.answer_patience = std::chrono::milliseconds(0)});
  };
  return doctor::try_transport(make, address, [&](const transport::Transport&) { return address; });
}

Trial try_tcp() {
  const auto secret = transport::Secret::random();  // both ends have it
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
    if (!secret.ok()) return secret.status();
    return transport::make_tcp_transport({.secret = *secret});
  };
  return doctor::try_transport(
      make, transport::tcp::backend().fresh_address(""),
      [](const transport::Transport& listener) { return listener.listening_address(); });
}

int run_doctor(const DoctorCommand& options) {
  Facts facts;
  facts.host = doctor::look_at_host();
  facts.wanted.device = options.device;
  facts.wanted.port = static_cast<std::uint8_t>(options.device_port);
  facts.verbs = transport::survey_verbs();
  facts.shm_trial = try_shared_memory();
  facts.tcp_trial = try_tcp();
  if (const auto choice = doctor::choose_port(facts.verbs, facts.wanted)) {
    facts.verbs_trial = try_verbs(facts, *choice);
  }
  const doctor::Diagnosis diagnosis = doctor::diagnose(facts);
  if (options.json) {
    put(stdout, job::to_line(doctor::to_json(facts, diagnosis), 2));
  } else {
    put(stdout, doctor::to_text(facts, diagnosis, terminal_use(stdout).colours));
  }
  if (const absl::Status arrived = flush_output(); !arrived.ok()) return report_error(arrived);
  if (diagnosis.verbs) return kExitOk;
  return diagnosis.shared_memory ? kSharedMemoryOnly : kNothingWorks;
}

}  // namespace

void add_doctor_command(CLI::App& program, Run* run) {
  auto options = std::make_shared<DoctorCommand>();
  CLI::App* command = program.add_subcommand(
      "doctor",
      "see whether verbs (RDMA) will work on this host, and what mends it if not\n\n"
      "Looks at libraries, devices, ports, GIDs, limits, kernel modules and the container around, says which "
      "port and GID would be used and why not the others, and tries it: memory is registered, the process "
      "connects to itself and reads. Changes nothing. Each command that it shows mends what stands above "
      "it.");
  command->add_option("--device", options->device, "Would this device work? Such as mlx5_1 or rxe0.")
      ->type_name("NAME");
  add_number(*command, "--device-port", options->device_port, "Would this port of it work?", {1, UINT8_MAX})
      ->type_name("N");
  command->add_flag("--json", options->json, "For programs: everything as JSON, on standard output.");
  command->footer(
      "EXIT STATUS\n"
      "       0      verbs will work\n"
      "       1      verbs will not work, shared memory does\n"
      "       2      impossible options\n"
      "       3      neither works");
  command->callback(
      [options, run] { *run = [options](const job::LaunchLetter&) { return run_doctor(*options); }; });
}

}  // namespace verbena::apps
