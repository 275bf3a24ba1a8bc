#include "apps/bench/job.hpp"

#include <string>
#include <tuple>
#include <utility>

#include "apps/bench/fixed_configuration.hpp"

namespace verbena::apps::bench {

absl::StatusOr<std::unique_ptr<Job>> Job::start(const Backend& backend, Client& client, ReadPath path,
                                                std::uint32_t workers, std::uint32_t servers, bool gathers) {
  auto job = std::unique_ptr<Job>(new Job(client));
  std::vector<std::string> addresses;
  for (std::uint32_t server = 0; server < servers; ++server) {
    auto address = client.start_server(workers, server, servers);
    if (!address.ok()) return address.status();
    addresses.push_back(*std::move(address));
  }
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    auto transport = backend.make_transport();
    if (!transport.ok()) return transport.status();
    SessionOptions options;
    options.servers = addresses;
    options.rank = rank;
    options.workers = workers;
    options.read_path = path;
    options.gather_row_bytes = gathers ? SIZE_MAX : 0;
    options.gather_keys = 1;
    options.timeout_ms = options.clock_timeout_ms = kTimeoutMs;
    options.transport = std::move(*transport);
    auto session = Session::connect(options);
    if (!session.ok()) return session.status();
    job->sessions_.push_back(std::move(*session));
  }
  return job;
}

absl::StatusOr<std::unique_ptr<Job>> Job::start_with_copies(const Backend& backend, Client& client,
                                                            std::uint32_t copies, bool shares_cores) {
  auto job = std::unique_ptr<Job>(new Job(client));
  const auto address = client.start_server_with_copies(1, copies, shares_cores);
  if (!address.ok()) return address.status();
  auto transport = shares_cores ? backend.make_sharing_transport() : backend.make_transport();
  if (!transport.ok()) return transport.status();
  SessionOptions options;
  options.servers = {*address};
  options.timeout_ms = options.clock_timeout_ms = kTimeoutMs;
  options.transport = *std::move(transport);
  if (copies > 0) {
    auto configuration = std::make_shared<FixedConfiguration>();
    configuration->decide({*address});  // of the copies a worker need not know
    options.configuration = std::move(configuration);
  }
  auto session = Session::connect(options);
  if (!session.ok()) return session.status();
  job->sessions_.push_back(std::move(*session));
  return job;
}

absl::StatusOr<std::uint64_t> Job::end() {
  has_ended_ = true;
  sessions_.clear();
  return client_.stop_servers();
}

Job::~Job() {
  if (!has_ended_) std::ignore = end();
}

}  // namespace verbena::apps::bench
