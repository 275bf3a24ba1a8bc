#include "apps/doctor/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::apps::doctor {
namespace {

using transport::Access;
using transport::Event;
using transport::RemoteDescriptor;
using transport::Transport;
using transport::WorkRequest;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr std::byte kPattern{0x5a};

/// Both ends of a connection of this process with itself.
class Loopback {
 public:
  absl::Status make(const MakeTransport& make_transport) {
    for (std::unique_ptr<Transport>* each : {&server_, &client_}) {
      auto made = make_transport();
      if (!made.ok()) return made.status();
      *each = std::move(*made);
    }
    return absl::OkStatus();
  }

  absl::Status allocate() {
    for (const auto& [region, owner, access] : {std::tuple{&readable_, server_.get(), Access::kRemoteRead},
                                                {&local_, client_.get(), Access::kLocal}}) {
      auto made = owner->allocate_region(kTrialRegionBytes, access);
      if (!made.ok()) return made.status();
      *region = std::move(*made);
    }
    std::ranges::fill(readable_->bytes(), kPattern);
    return absl::OkStatus();
  }

  absl::Status listen(const std::string& address) { return server_->listen(address); }
  [[nodiscard]] const Transport& server() const { return *server_; }

  absl::Status connect(const std::string& address) {
    const auto deadline = client_->now() + kPatience;
    auto connected = client_->connect(address, deadline);
    if (!connected.ok()) return connected.status();
    connection_ = std::move(*connected);
    connection_->set_peer_name("this process itself");
    return poll_until([&] { return described_; });
  }

  absl::Status read() {
    outstanding_ = {.opcode = transport::Opcode::kRead,
                    .signaled = true,
                    .local = local_->bytes(),
                    .region = local_.get(),
                    .remote = remote_};
    sender_ = connection_.get();
    if (absl::Status status = poll_until([&] { return completed_; }); !status.ok()) return status;
    const bool same = std::ranges::all_of(local_->bytes(), [](std::byte each) { return each == kPattern; });
    return same ? absl::OkStatus() : absl::DataLossError("other bytes were read than stand there");
  }

 private:
  template <class Done>
  absl::Status poll_until(Done done) {
    const auto deadline = client_->now() + kPatience;
    while (!done()) {
      for (Transport* each : {server_.get(), client_.get()}) {
        RETURN_IF_ERROR(poll(*each));
      }
      // A connection that is still being set up takes no requests yet.
      if (sender_ != nullptr && sender_->post({&outstanding_, 1}) == 1) sender_ = nullptr;
      for (const auto* each : {accepted_.get(), connection_.get()}) {
        if (each != nullptr && !each->status().ok()) return each->status();
      }
      if (client_->now() > deadline) {
        return absl::DeadlineExceededError(fmt::format("nothing has come within {} s", kPatience.count()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status poll(Transport& transport) {
    std::array<Event, 16> events;
    const std::size_t count = transport.poll(events);
    for (const Event& event : std::span(events).first(count)) {
      switch (event.kind) {
        case Event::Kind::kAccepted:
          RETURN_IF_ERROR(welcome(transport.take_accepted()));
          break;
        case Event::Kind::kMessage:
          if (event.message.size() != sizeof(remote_)) return absl::DataLossError("a message was garbled");
          std::memcpy(&remote_, event.message.data(), sizeof(remote_));
          described_ = true;
          break;
        case Event::Kind::kCompletion:
          if (event.result == transport::OperationResult::kOk) completed_ = true;
          break;
        case Event::Kind::kDisconnected:
          return event.connection->status();
        case Event::Kind::kNotification:
          break;
      }
    }
    return absl::OkStatus();
  }

  /// Tells the client, at the other end of `accepted`, what it may read.
  absl::Status welcome(std::unique_ptr<transport::Connection> accepted) {
    accepted_ = std::move(accepted);
    accepted_->set_peer_name("this process itself");
    auto granted = accepted_->grant(*readable_);
    if (!granted.ok()) return granted.status();
    granted_ = *granted;
    outstanding_ = {.opcode = transport::Opcode::kSend,
                    .local = std::as_writable_bytes(std::span(&granted_, 1))};
    sender_ = accepted_.get();
    return absl::OkStatus();
  }

  // Destroyed in reverse order: a connection before the memory of its requests, everything before its
  // transport.
  std::unique_ptr<Transport> server_, client_;
  std::unique_ptr<transport::MemoryRegion> readable_, local_;
  std::unique_ptr<transport::Connection> accepted_, connection_;
  RemoteDescriptor granted_;                 ///< as the server sends it
  RemoteDescriptor remote_;                  ///< as the client received it
  WorkRequest outstanding_;                  ///< the request to post
  transport::Connection* sender_ = nullptr;  ///< the connection that posts it; null: posted
  bool described_ = false;
  bool completed_ = false;
};

}  // namespace

Trial try_transport(const MakeTransport& make_transport, const std::string& address,
                    const std::function<std::string(const transport::Transport&)>& listening_address) {
  Loopback loopback;
  Trial trial;
  const auto next = [&](std::string step, absl::Status status) {
    trial.step = std::move(step);
    trial.status = std::move(status);
    return trial.status.ok();
  };
  if (!next("opening it", loopback.make(make_transport))) return trial;
  if (!next(fmt::format("registering two regions of {} MiB", kTrialRegionBytes >> 20U),
            loopback.allocate())) {
    return trial;
  }
  if (!next("listening", loopback.listen(address))) return trial;
  const std::string peer = listening_address(loopback.server());
  if (peer.empty()) return trial;
  if (!next(fmt::format("connecting to itself at {}", peer), loopback.connect(peer))) return trial;
  next(fmt::format("reading {} MiB of its own memory through {}", kTrialRegionBytes >> 20U, peer),
       loopback.read());
  return trial;
}

}  // namespace verbena::apps::doctor
