// A transport for the roles of a meeting (job/meeting/role.hpp), without another end: the test says what
// comes, and looks at what was said.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/line_stream.hpp"
#include "job/meeting/wire.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// What a process has told another one, over one connection.
struct Told {
  std::string words;
  bool is_over = false;  ///< it has ended the connection

  /// By that name, as JSON.
  [[nodiscard]] std::vector<std::string> by(const char* name) const {
    std::vector<std::string> all;
    LineStream lines;
    lines.add(words, [&](std::string_view line) {
      const nlohmann::json object = nlohmann::json::parse(line);
      if (object.contains(name)) all.push_back(object[name].dump());
    });
    return all;
  }
};

class FakeConnection final : public transport::Connection {
 public:
  explicit FakeConnection(std::shared_ptr<Told> told) : told_(std::move(told)) {}
  ~FakeConnection() override { told_->is_over = true; }

  absl::StatusOr<transport::RemoteDescriptor> grant(const transport::MemoryRegion& /*region*/) override {
    return absl::UnimplementedError("nobody shares memory here");
  }
  const std::byte* mapped(const transport::RemoteDescriptor& /*remote*/) override { return nullptr; }
  [[nodiscard]] const absl::Status& status() const override { return status_; }
  void break_off() { status_ = absl::UnavailableError("it is gone"); }

 protected:
  [[nodiscard]] std::size_t do_post(std::span<const transport::WorkRequest> requests) override {
    for (const transport::WorkRequest& each : requests)
      told_->words.append(reinterpret_cast<const char*>(each.local.data()), each.local.size());
    return requests.size();
  }

 private:
  const std::shared_ptr<Told> told_;
  absl::Status status_;
};

/// Of one process, whose connections are what the test says, as events are.
class FakeTransport final : public transport::Transport {
 public:
  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> allocate_region(
      std::size_t /*bytes*/, transport::Access /*access*/) override {
    return absl::UnimplementedError("nobody shares memory here");
  }
  absl::Status listen(const std::string& /*address*/) override { return absl::OkStatus(); }
  [[nodiscard]] std::string listening_address() const override { return ""; }
  absl::StatusOr<std::unique_ptr<transport::Connection>> connect(const std::string& /*address*/,
                                                                 transport::TimePoint /*deadline*/) override {
    if (found == nullptr) return absl::DeadlineExceededError("nobody is there");
    return std::move(found);
  }
  std::unique_ptr<transport::Connection> take_accepted() override { return std::move(accepted); }
  [[nodiscard]] std::size_t poll(std::span<transport::Event> /*events*/) override { return 0; }
  void wait(transport::TimePoint /*deadline*/) override {}
  void interrupt() override {}
  [[nodiscard]] transport::TimePoint now() const override { return {}; }
  [[nodiscard]] std::size_t max_message_bytes() const override { return Wire::kMessageBytes; }
  [[nodiscard]] std::string_view name() const override { return "fake"; }

  std::unique_ptr<transport::Connection> accepted;  ///< the next one
  std::unique_ptr<transport::Connection> found;     ///< by the next attempt to connect
};

}  // namespace verbena::job
