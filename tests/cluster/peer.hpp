// One end of a connection, whose messages a test sends one by one.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/messages.hpp"
#include "transport/heartbeat.hpp"
#include "transport/message_ring.hpp"
#include "transport/transport.hpp"

namespace verbena::testing {

class Peer {
 public:
  static constexpr auto kPatience = std::chrono::seconds(20);
  static constexpr std::size_t kRingBytes = 4096;

  Peer(transport::Transport& transport, std::unique_ptr<transport::Connection> connection)
      : transport_(transport), connection_(std::move(connection)) {
    receiver_ = *transport::RingReceiver::create(transport_, *connection_, kRingBytes);
    sender_ = *transport::RingSender::create(transport_, *connection_);
    memory_ = *transport_.allocate_region(kRingBytes, transport::Access::kLocal);
    heartbeat_ = *transport::Heartbeat::create(transport_);
  }

  [[nodiscard]] transport::Connection& connection() { return *connection_; }
  /// Its heartbeat stands still, as that of a stopped process. REQUIRES: it has not said hello or welcome
  /// yet.
  void be_silent() {
    silence_ = *transport_.allocate_region(transport::Heartbeat::kBytes, transport::Access::kRemoteRead);
  }

  void say(std::string bytes) {
    const transport::WorkRequest request{.opcode = transport::Opcode::kSend,
                                         .local = std::as_writable_bytes(std::span(bytes))};
    EXPECT_EQ(connection_->post({&request, 1}), 1U);
  }
  void say(const protocol::ControlMessage& message) { say(protocol::encode(message)); }
  /// False when there is no room.
  [[nodiscard]] bool try_to_say(const protocol::ControlMessage& message) {
    std::string bytes = protocol::encode(message);
    const transport::WorkRequest request{.opcode = transport::Opcode::kSend,
                                         .local = std::as_writable_bytes(std::span(bytes))};
    return connection_->post({&request, 1}) == 1;
  }
  /// Says hello as the worker that `who` describes, with this peer's rings and heartbeat, and its process if
  /// none is said.
  void say_hello(protocol::Hello who) {
    if (who.pid == 0) who.pid = static_cast<std::uint32_t>(::getpid());
    who.inbox_bytes = kRingBytes;
    who.push_ring = protocol::Descriptor::of(receiver_->descriptor());
    who.inbox_credit = protocol::Descriptor::of(sender_->credit_descriptor());
    who.heartbeat = heartbeat();
    say(who);
  }
  [[nodiscard]] protocol::Welcome welcome(std::uint32_t lanes) {
    return {.pid = static_cast<std::uint32_t>(::getpid()),
            .lanes = lanes,
            .inbox = protocol::Descriptor::of(receiver_->descriptor()),
            .push_credit = protocol::Descriptor::of(sender_->credit_descriptor()),
            .heartbeat = heartbeat()};
  }
  void say_welcome(std::uint32_t lanes) { say(welcome(lanes)); }
  /// Waits for the next message of that kind, and drops all others. If none comes within kPatience, the test
  /// fails.
  template <class Message>
  Message hear() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      while (!heard_.empty()) {
        const protocol::ControlMessage message = std::move(heard_.front());
        heard_.pop_front();
        if (std::holds_alternative<Message>(message)) return std::get<Message>(message);
      }
      poll();
    }
    ADD_FAILURE() << "no message of that kind has come";
    return {};
  }
  /// Takes what has come, for hear().
  void poll() {
    std::array<transport::Event, 16> events;
    for (const transport::Event& event : std::span(events).first(transport_.poll(events))) {
      if (event.kind == transport::Event::Kind::kNotification) note_bulk(event.notification);
      if (event.kind != transport::Event::Kind::kMessage) continue;
      auto message = protocol::decode_control(event.message);
      if (message.ok()) heard_.push_back(std::move(*message));
    }
  }
  /// Some memory of this peer, for a message in which any will do.
  [[nodiscard]] protocol::Descriptor any_memory() const {
    return protocol::Descriptor::of(receiver_->descriptor());
  }
  /// Zeros that the other side may read.
  protocol::Descriptor make_readable_memory() {
    readable_ = *transport_.allocate_region(kRingBytes, transport::Access::kRemoteRead);
    return protocol::Descriptor::of(*connection_->grant(*readable_));
  }
  /// The headers of all bulk messages that have come so far.
  [[nodiscard]] const std::vector<protocol::BulkHeader>& bulk_headers() const { return bulk_headers_; }
  void set_credit(const protocol::Descriptor& credit) {
    receiver_->set_credit(credit.as<transport::RemoteDescriptor>());
  }
  void set_ring(const protocol::Descriptor& ring) {
    ring_ = ring.as<transport::RemoteDescriptor>();
    sender_->set_ring(ring_);
  }
  /// Overwrites what it has sent, `offset` bytes from the ring's beginning. No honest peer does that.
  void rewrite(std::size_t offset, std::string_view bytes) {
    std::memcpy(memory_->bytes().data(), bytes.data(), bytes.size());
    const transport::WorkRequest request{.opcode = transport::Opcode::kWrite,
                                         .local = memory_->bytes().first(bytes.size()),
                                         .region = memory_.get(),
                                         .remote = ring_.slice(offset, bytes.size())};
    EXPECT_EQ(connection_->post({&request, 1}), 1U);
  }
  [[nodiscard]] const transport::RingSender& sender() const { return *sender_; }
  void send(const protocol::BulkHeader& header, std::string_view payload = {}) {
    std::memcpy(memory_->bytes().data(), &header, sizeof header);
    if (!payload.empty())
      std::memcpy(memory_->bytes().data() + sizeof header, payload.data(), payload.size());
    EXPECT_EQ(sender_->try_send(memory_->bytes().first(sizeof header + payload.size()), *memory_),
              transport::SendResult::kSent);
  }
  /// Leaves a message in memory that the other side may read, `offset` bytes from its beginning, and says
  /// where it is.
  void send_elsewhere(const protocol::BulkHeader& header, std::string_view payload = {},
                      std::size_t offset = 0) {
    protocol::Descriptor where = make_readable_memory();
    std::byte* const to = readable_->bytes().data() + offset;
    std::memcpy(to, &header, sizeof header);
    std::memcpy(to + sizeof header, payload.data(), payload.size());
    where.address += offset;
    where.length_bytes = sizeof header + payload.size();
    send_place(where);
  }
  void send_place(const protocol::Descriptor& where) {
    send({.kind = protocol::BulkKind::kElsewhere}, {reinterpret_cast<const char*>(&where), sizeof where});
  }
  void notify(std::uint32_t notification) {
    const transport::WorkRequest request{.opcode = transport::Opcode::kWriteNotify,
                                         .notification = notification};
    EXPECT_EQ(connection_->post({&request, 1}), 1U);
  }

 private:
  protocol::Descriptor heartbeat() {
    return protocol::Descriptor::of(silence_ != nullptr ? *connection_->grant(*silence_)
                                                        : *heartbeat_->grant(*connection_));
  }
  void note_bulk(std::uint32_t notification) {
    const auto bytes = receiver_->on_notification(notification);
    if (!bytes.ok() || bytes->empty()) return;
    if (const auto message = protocol::decode_bulk(*bytes); message.ok())
      bulk_headers_.push_back(message->header);
  }

  transport::Transport& transport_;
  std::unique_ptr<transport::Heartbeat> heartbeat_;
  std::unique_ptr<transport::MemoryRegion> silence_;
  std::unique_ptr<transport::Connection> connection_;
  std::unique_ptr<transport::RingReceiver> receiver_;
  std::unique_ptr<transport::RingSender> sender_;
  transport::RemoteDescriptor ring_;
  std::unique_ptr<transport::MemoryRegion> memory_;
  std::unique_ptr<transport::MemoryRegion> readable_;
  std::deque<protocol::ControlMessage> heard_;
  std::vector<protocol::BulkHeader> bulk_headers_;
};

}  // namespace verbena::testing
