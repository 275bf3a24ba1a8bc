// What stands behind the handles of a fake fabric's verbs: a handle is the first part of one of these.
#pragma once

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/transport/verbs/fake_fabric.hpp"

namespace verbena::transport::fake {

struct State;

/// A queue whose file is readable as long as something is in it.
template <class Value>
class FileQueue {
 public:
  FileQueue() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
  ~FileQueue() { ::close(fd_); }
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  void push(Value value) {
    values_.push_back(std::move(value));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof(one));
  }
  bool pop(Value& value) {
    if (values_.empty()) {
      errno = EAGAIN;
      return false;
    }
    value = std::move(values_.front());
    values_.pop_front();
    take_one();
    return true;
  }
  template <class Condition>
  void erase_if(Condition condition) {
    for (auto left = std::erase_if(values_, condition); left > 0; --left) take_one();
  }
  [[nodiscard]] const std::deque<Value>& values() const { return values_; }

 private:
  void take_one() const {
    std::uint64_t one = 0;
    [[maybe_unused]] const auto bytes = ::read(fd_, &one, sizeof(one));
  }
  int fd_;
  std::deque<Value> values_;
};

struct Context;

struct Device : ibv_device {
  State* state = nullptr;
  FakeFabric::DeviceOptions options;
  std::unique_ptr<Context> manager_context;  ///< the connection manager opens each device itself
  bool vanished = false;
};

struct Context : ibv_context {
  Device* fake = nullptr;
  FileQueue<ibv_async_event> events;
};

struct Domain : ibv_pd {};

struct Region : ibv_mr {
  int rights = 0;
};

struct Queue;

struct Window : ibv_mw {
  const Region* region = nullptr;
  const Queue* queue = nullptr;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  unsigned rights = 0;
};

struct Completions;

struct Channel : ibv_comp_channel {
  FileQueue<Completions*> events;
};

struct Completions : ibv_cq {
  Channel* fake_channel = nullptr;
  std::deque<ibv_wc> waiting;
  bool armed = false;
};

struct Request {
  ibv_send_wr wr{};
  std::vector<ibv_sge> pieces;
  std::vector<std::byte> kept;  ///< the bytes of an inline request
};

struct Receive {
  std::uint64_t id = 0;
  ibv_sge piece{};
};

struct Queue : ibv_qp {
  Device* device = nullptr;
  ibv_qp_state at = IBV_QPS_RESET;
  std::uint32_t peer = 0;
  unsigned rights = 0;
  std::uint8_t not_ready_retries = 0;
  ibv_qp_cap cap{};
  std::deque<Request> sends;
  std::deque<Receive> receives;
  std::uint32_t outstanding_sends = 0;  ///< each until its completion, or that of a later one, is polled
  std::map<std::uint64_t, std::uint32_t> covers;  ///< by id of a signaled request: the places it frees
};

struct Identifier;

struct ManagerEvent : rdma_cm_event {
  std::vector<std::byte> data;
};

struct ManagerChannel : rdma_event_channel {
  FileQueue<ManagerEvent*> events;
  State* state = nullptr;
};

struct Identifier : rdma_cm_id {
  State* state = nullptr;
  ManagerChannel* fake_channel = nullptr;
  Identifier* peer = nullptr;
  std::uint32_t queue_number = 0;
  std::uint8_t not_ready_retries = 0;
  sockaddr_in own{};
  bool listening = false;
  bool connected = false;
  bool answered = false;
};

inline std::uint64_t length_of(const Request& request) {
  std::uint64_t length = 0;
  for (const ibv_sge& piece : request.pieces) length += piece.length;
  return length;
}

}  // namespace verbena::transport::fake
