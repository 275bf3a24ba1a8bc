// The store that an etcd cluster keeps (3.4 or later), through its JSON gateway, by libcurl.
//
// One member is asked at a time. When it fails, or does not answer in time, the next one is asked at once,
// and watches through the first end, since what they have missed is not known. When all have failed there is
// a pause.
//
// A transaction goes out once, over a connection of its own: libcurl would send a request again when a
// connection that it has used before is closed without an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/backoff.hpp"
#include "cluster/store.hpp"

namespace verbena::cluster {

struct CurlApi;

struct EtcdOptions {
  std::vector<std::string> endpoints;  ///< "http://HOST:PORT", "https://HOST:PORT"
  /// How long one member has for one answer. Longer: a busy member's answer is waited for; shorter: the next
  /// member is asked sooner, and more transactions end with UNKNOWN.
  Duration attempt_limit = std::chrono::seconds(2);
  Duration connect_limit = std::chrono::milliseconds(500);
  std::string ca_file;           ///< PEM; empty: the system's authorities, for https
  std::string certificate_file;  ///< PEM, of this client; empty: none
  std::string key_file;
  std::string user;  ///< empty: etcd asks for none
  std::string password;
};

class EtcdStore final : public Store {
 public:
  /// UNAVAILABLE: libcurl is not there, and what to install. INVALID_ARGUMENT: no endpoints, or what is none.
  static absl::StatusOr<std::unique_ptr<EtcdStore>> create(EtcdOptions options);
  ~EtcdStore() override;

  void add_descriptors(std::vector<pollfd>& wanted) const override;

 private:
  struct Transfer;
  class Multi;

  EtcdStore(EtcdOptions options, const CurlApi& api, std::unique_ptr<Multi> multi);
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint next_step() const override;
  void on_given_up(std::uint64_t request) override;
  void on_unwatched(WatchId watch) override;

  void begin_all(TimePoint now);
  void begin(std::unique_ptr<Transfer> transfer, TimePoint now, TimePoint deadline);
  void end_watches_that_do_not_begin(TimePoint now);
  void on_done(Transfer& transfer, int code, TimePoint now);
  void on_login(const Transfer& transfer, TimePoint now);
  void on_answer(const Transfer& transfer, TimePoint now);
  void on_watch_end(const Transfer& transfer, std::string_view why);
  void end_watches(std::size_t endpoint, std::string_view why);
  /// A member has not answered, or not as it should.
  void leave(std::size_t endpoint, TimePoint now, std::string why);
  /// Whole lines of a watch. False: it is to end.
  bool hear_lines(Transfer& transfer);
  [[nodiscard]] bool needs_login() const { return !options_.user.empty() && token_.empty(); }
  [[nodiscard]] bool has_something_to_begin() const;
  static std::size_t on_bytes(char* bytes, std::size_t size, std::size_t count, void* transfer);

  const EtcdOptions options_;
  const CurlApi& api_;
  const std::unique_ptr<Multi> multi_;
  std::map<std::uint64_t, std::unique_ptr<Transfer>> transfers_;  ///< by request or watch; kLogin
  std::size_t endpoint_ = 0;                                      ///< that is asked next
  std::size_t failures_ = 0;                                      ///< since the last answer
  Backoff rounds_;                                                ///< through all members
  TimePoint now_;                                                 ///< of the last step()
  std::string token_;
};

}  // namespace verbena::cluster
