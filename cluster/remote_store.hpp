// The store of another process on this host: of one that has a StoreServer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/backoff.hpp"
#include "cluster/frame_stream.hpp"
#include "cluster/store.hpp"
#include "transport/secret.hpp"

namespace verbena::cluster {

/// Connects when it is polled, and again when the connection is lost.
class RemoteStore final : public Store {
 public:
  /// `name`: where the StoreServer listens.
  RemoteStore(std::string name, std::shared_ptr<const transport::Secret> secret)
      : name_(std::move(name)), secret_(std::move(secret)) {}

  void add_descriptors(std::vector<pollfd>& wanted) const override;

 private:
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint next_step() const override;
  void on_unwatched(WatchId watch) override;

  void connect(TimePoint now);
  void disconnect(TimePoint now, std::string_view why);
  /// False: it is not the store that says this.
  bool hear(std::string_view frame);
  void ask();
  [[nodiscard]] bool has_something_to_ask() const;

  const std::string name_;
  const std::shared_ptr<const transport::Secret> secret_;
  std::optional<FrameStream> stream_;
  bool is_open_ = false;  ///< both ends have proved themselves
  transport::Nonce ours_{};
  TimePoint greeting_deadline_;  ///< while stream_ is there and not open
  Backoff attempts_;
};

}  // namespace verbena::cluster
