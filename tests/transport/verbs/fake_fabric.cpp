#include "tests/transport/verbs/fake_fabric.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/transport/verbs/fake_libraries.hpp"
#include "tests/transport/verbs/fake_state.hpp"

namespace verbena::transport {

FakeFabric::FakeFabric(std::uint64_t seed, bool own_thread) : state_(std::make_shared<fake::State>(seed)) {
  state_->own_thread = own_thread;
  if (own_thread) state_->thread = std::thread([state = state_.get()] { state->run(); });
}

FakeFabric::~FakeFabric() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->work.notify_one();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

void FakeFabric::add_device(const DeviceOptions& options) {
  const std::lock_guard lock(state_->mutex);
  auto device = std::make_unique<fake::Device>();
  static_cast<ibv_device&>(*device) = {};
  options.name.copy(device->name, sizeof(device->name) - 1);
  options.folder.copy(device->ibdev_path, sizeof(device->ibdev_path) - 1);
  device->transport_type = !options.connections ? IBV_TRANSPORT_UNSPECIFIED
                           : options.iwarp      ? IBV_TRANSPORT_IWARP
                                                : IBV_TRANSPORT_IB;
  device->state = state_.get();
  device->options = options;
  device->manager_context.reset(new_context(*device));
  state_->devices.push_back(std::move(device));
}

std::shared_ptr<const VerbsApi> FakeFabric::api() {
  auto api = std::make_shared<VerbsApi>();
  fake::add_verbs(*api, *state_);
  fake::add_connection_manager(*api, *state_);
  return api;
}

bool FakeFabric::step() {
  const std::lock_guard lock(state_->mutex);
  return state_->step();
}

void FakeFabric::fail_call(const std::string& name, int error, std::uint32_t skip) {
  const std::lock_guard lock(state_->mutex);
  state_->call_faults.push_back({name, error, skip});
}

void FakeFabric::forget_faults() {
  const std::lock_guard lock(state_->mutex);
  state_->call_faults.clear();
  state_->request_faults.clear();
}

void FakeFabric::fail_request(const std::string& device, ibv_wc_status status, std::uint32_t skip) {
  const std::lock_guard lock(state_->mutex);
  state_->request_faults.push_back({device, status, skip});
}

void FakeFabric::raise(const std::string& device, ibv_event_type type) {
  const std::lock_guard lock(state_->mutex);
  for (fake::Context* context : state_->contexts) {
    if (context->fake->options.name != device) continue;
    fake::Queue* queue = nullptr;
    for (const auto& [number, each] : state_->queues) {
      if (each->context == context) queue = each;
    }
    const bool of_queue = type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
                          type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_COMM_EST;
    if ((of_queue || type == IBV_EVENT_CQ_ERR) && queue == nullptr) continue;
    if (of_queue && type != IBV_EVENT_COMM_EST) state_->break_queue(*queue);
    state_->raise_for(*context, type, of_queue ? queue : nullptr,
                      type == IBV_EVENT_CQ_ERR ? queue->send_cq : nullptr);
  }
}

void FakeFabric::vanish(const std::string& device) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& each : state_->devices) {
    if (each->options.name == device) each->vanished = true;
  }
}

void FakeFabric::swallow_flushes(bool swallow) {
  const std::lock_guard lock(state_->mutex);
  state_->swallow = swallow;
}

FakeFabric::Counters FakeFabric::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

std::string FakeFabric::leaks() const {
  const std::lock_guard lock(state_->mutex);
  std::string leaks;
  const auto check = [&](std::string_view what, std::size_t count) {
    if (count > 0) leaks += fmt::format("{} {}; ", count, what);
  };
  check("contexts", state_->contexts.size());
  check("domains", state_->domains.size());
  check("regions", state_->regions.size());
  check("windows", state_->windows.size());
  check("completion channels", state_->channels.size());
  check("completion queues", state_->completions.size());
  check("queue pairs", state_->queues.size());
  check("event channels", state_->manager_channels.size());
  check("identifiers", state_->identifiers.size());
  check("events not acknowledged", static_cast<std::size_t>(state_->unacknowledged));
  return leaks;
}

}  // namespace verbena::transport
