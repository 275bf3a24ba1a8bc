#include "tests/store/backend.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "apps/simulation/simulated_store.hpp"
#include "base/return_if_error.hpp"
#include "cluster/etcd_store.hpp"
#include "cluster/local_store.hpp"
#include "cluster/remote_store.hpp"
#include "cluster/store_server.hpp"
#include "tests/store/etcd_process.hpp"

namespace verbena::cluster {
namespace {

class LocalBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> make() { return std::make_unique<LocalBackend>(); }
  std::unique_ptr<Store> connect() override { return std::make_unique<LocalStore>(state_); }
  absl::Status compact(Revision first) override {
    state_.compact(first);
    return absl::OkStatus();
  }

 private:
  StoreState state_;
};

class RemoteBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> make() {
    auto backend = std::make_unique<RemoteBackend>();
    const auto secret = transport::Secret::random();
    if (!secret.ok()) return secret.status();
    backend->secret_ = *secret;
    backend->name_ = fmt::format("test-{}", ::getpid());
    auto server = StoreServer::listen(backend->name_, *secret, backend->state_);
    if (!server.ok()) return server.status();
    backend->server_ = *std::move(server);
    return backend;
  }
  std::unique_ptr<Store> connect() override { return std::make_unique<RemoteStore>(name_, secret_); }
  absl::Status compact(Revision first) override {
    state_.compact(first);
    return absl::OkStatus();
  }
  void add_descriptors(std::vector<pollfd>& wanted) const override { server_->add_descriptors(wanted); }
  [[nodiscard]] TimePoint next_poll() const override { return server_->next_poll(); }
  void poll(TimePoint now) override { server_->poll(now); }

 private:
  StoreState state_;
  std::shared_ptr<const transport::Secret> secret_;
  std::string name_;
  std::unique_ptr<StoreServer> server_;
};

class EtcdBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> make() {
    auto backend = std::make_unique<EtcdBackend>();
    RETURN_IF_ERROR(backend->etcd_.start(1));
    RETURN_IF_ERROR(EtcdStore::create({.endpoints = backend->etcd_.endpoints()}).status());
    return backend;
  }
  std::unique_ptr<Store> connect() override {
    // A machine that is busy otherwise must not make a transaction's outcome unknown here.
    return EtcdStore::create({.endpoints = etcd_.endpoints(), .attempt_limit = std::chrono::seconds(15)})
        .value();
  }
  absl::Status compact(Revision first) override { return etcd_.compact(first); }

 private:
  EtcdProcesses etcd_;
};

/// Time is virtual: nothing waits.
class SimulatedBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> make() { return std::make_unique<SimulatedBackend>(); }
  std::unique_ptr<Store> connect() override { return std::make_unique<simulation::SimulatedStore>(service_); }
  absl::Status compact(Revision first) override {
    service_.state().compact(first);
    return absl::OkStatus();
  }
  [[nodiscard]] TimePoint now() const override { return now_; }
  void wait(std::vector<pollfd>& /*wanted*/, TimePoint until) override { now_ = std::max(now_, until); }

 private:
  simulation::SimulatedStoreService service_{{.seed = 1, .late_events = 0.3, .lease_drift = 0.1}};
  TimePoint now_ = TimePoint(std::chrono::seconds(1));
};

}  // namespace

std::vector<BackendKind> backend_kinds() {
  return {{"Local", &LocalBackend::make},
          {"Remote", &RemoteBackend::make},
          {"Etcd", &EtcdBackend::make},
          {"Simulated", &SimulatedBackend::make}};
}

}  // namespace verbena::cluster
