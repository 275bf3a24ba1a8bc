// A server's place among its copies: whom it follows, who follows it, and whether it is the one that serves
// (cluster/configuration.hpp). Without a source of configurations there is one copy, and it serves.
//
// One that joins while the job runs has nothing: it gets an image (image.hpp) from the last one of the chain,
// and the records that have come since that moment. A configuration names it as joining until it has said
// that it has all of that.
//
//  1. Until then it holds up nobody. Records count without it; each is kept until there is room for it on the
//     way to the one that joins. So many bytes may wait as the bulk of the image has, and some more: if there
//     are more, whoever decides is told, and ends it.
//  2. When the image and these records are sent, the last piece follows. From there on nothing counts that
//  the
//     one that joins does not have, as of any copy; and when it has that piece, it says so.
//  3. It keeps records that come before the last piece, and goes by them then. What it keeps has the same
//     bound; beyond it, records stay in the ring until there is room, and the others are as slow as its
//     lanes. So do all records if a copy follows that must have them, too.
//  4. If its connection breaks after the first piece and before the last one, it ends, since it cannot begin
//     anew: another one joins.
//
// Who follows hears nothing of workers but through the log. When a configuration makes it the first of the
// chain, it serves: workers come back to it, and say again what has not counted (Hello::is_back). They are
// not welcome before its lanes have used all that it has acknowledged, and whatever else it has of the one
// before: they have been told of that.
//
// The one that it has followed may go on all the same (ConfigurationSource::ends_who_is_left_out()), and
// workers that have not heard of the configuration may read there. Under models whose reads wait for clocks
// they find all that their clocks promise. Under those that promise what others were told of, or have read
// (sequential, vap), nobody must find here what is not there. That may be: this copy has had all that was
// told there, and perhaps more. So it is not read, and what workers say to it does not count, until all of
// them have come to it: a worker has ended its reads elsewhere before it comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cluster/configuration.hpp"
#include "protocol/messages.hpp"
#include "server/backlog.hpp"
#include "server/image.hpp"
#include "server/log.hpp"
#include "server/peer.hpp"
#include "transport/attempt_limit.hpp"
#include "transport/transport.hpp"
#include <verbena/server.hpp>

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class Chain {
 public:
  /// What the chain asks of its server.
  class Host {
   public:
    virtual ~Host() = default;
    virtual void reply(Peer& peer, const protocol::ControlMessage& message) = 0;
    virtual Peer& add_peer(std::unique_ptr<transport::Connection> connection) = 0;
    virtual void drop(Peer& peer) = 0;
    virtual absl::StatusOr<transport::RemoteDescriptor> grant_heartbeat(transport::Connection& peer) = 0;
    /// A record counts.
    virtual absl::Status go_by(const WorkerMessage& record) = 0;
    virtual void serve() = 0;  ///< from now on this copy serves
    /// Lanes are to use all that counts now. And whether they have.
    virtual void begin_catching_up() = 0;
    [[nodiscard]] virtual bool has_caught_up() const = 0;
    /// A table promises its readers what others were told of.
    [[nodiscard]] virtual bool acknowledges_at_once() const = 0;
    virtual void all_have_come() = 0;  ///< from now on it may be read
    virtual void fail(const absl::Status& because) = 0;
    /// Another copy has this one's place. It ends without a word: to those who do not know that yet it would
    /// sound as if the job had failed.
    virtual void step_aside(const absl::Status& because) = 0;
    /// The image is of this moment. False: not now, or, unless it `must`, not at a good moment.
    virtual bool begin_image(bool must) = 0;
    /// The image that was begun, once lanes have written its head: called again and again.
    virtual std::optional<Image> take_image() = 0;
    virtual void forget_image() = 0;  ///< nobody wants it any more
    /// Becomes as the server whose image it is. Returns the memory of the bulk.
    virtual absl::StatusOr<ImageBulk> load(std::string_view head) = 0;
    virtual void go_on_from_image() = 0;  ///< the bulk is there
  };
  /// `workers`: by rank; each has a peer, if there is a source. All must outlive it.
  Chain(transport::Transport& transport, const ServerOptions& options, std::uint32_t lanes,
        const ImageGrain& grain, const std::vector<Peer*>& workers, Host& host);

  /// There may be other copies, now or later.
  [[nodiscard]] bool is_replicated() const { return source_ != nullptr; }
  [[nodiscard]] bool serves() const { return serves_; }
  /// It serves, and must not be read yet.
  [[nodiscard]] bool waits_for_workers() const { return log_.is_held(); }
  /// Lanes have used all that it had of copies that it has followed. REQUIRES: it serves
  [[nodiscard]] bool has_caught_up() const { return !inherited_ && host_.has_caught_up(); }
  /// The configuration that it goes by.
  [[nodiscard]] std::uint64_t configuration() const { return number_; }
  /// The first one of the chain has said that all is over.
  [[nodiscard]] bool is_dismissed() const { return is_dismissed_; }

  /// Of the records that went to those who followed; images do not count.
  [[nodiscard]] std::uint64_t bytes_to_copies() const { return log_.sent_bytes(); }

  /// A worker has said something that changes what this server has, or has to keep its place in the order.
  /// Errors are those of the record, if it counts at once.
  absl::Status take(WorkerMessage record);
  /// Goes on with all of it; false: there was nothing to do.
  bool poll();
  [[nodiscard]] transport::TimePoint next_poll() const;
  /// The job is over, in one way or another: who follows may go, also one that comes later.
  void dismiss_follower();
  /// All is over, and one that is to follow is not there yet. It would look in vain for this server if that
  /// ended now.
  [[nodiscard]] bool may_follower_come() const;
  void drop_log() { log_.drop(); }

  // Messages of those before and after this server.
  absl::Status on_follow(Peer& peer, const protocol::Follow& follow);
  absl::Status on_followed(Peer& peer, const protocol::Followed& followed);
  absl::Status on_record(Peer& predecessor, std::span<const std::byte> bytes);
  void on_goodbye(const Peer& peer);
  /// False: it has refused to be followed, and will be asked again.
  bool ends_with(const Peer& predecessor);
  /// The connection to one of them has ended.
  void on_gone(const Peer& peer);

 private:
  struct Wait {
    transport::TimePoint since = transport::TimePoint::max();  ///< max(): it does not wait
    std::string what;
    [[nodiscard]] bool is_under_way() const { return since != transport::TimePoint::max(); }
  };
  /// The record counts.
  absl::Status go_by(const WorkerMessage& record);
  absl::Status take(const protocol::LogRecord& record, InboxMessage& inbox);
  [[nodiscard]] bool is_over() const { return over_since_ != transport::TimePoint::max(); }
  bool go_by_backlog(std::size_t most_bytes);
  void acknowledge();
  [[nodiscard]] bool have_all_left() const;
  void follow_configuration();
  void adopt(const cluster::Configuration& newest);
  void connect();
  void watch_follower(transport::TimePoint now);
  void check_patience(transport::TimePoint now);
  void suspect_who_does_not_follow(transport::TimePoint now);
  void lose_follower();
  void serve();
  void catch_up();
  [[nodiscard]] bool have_all_come() const;
  void expect_follower();
  bool send_image();
  void forget_image();
  void keep_for_who_joins(const WorkerMessage& record);
  void give_up_who_joins(std::string_view why);
  absl::Status on_piece(const protocol::LogRecord& piece);

  transport::Transport& transport_;
  const ServerOptions& options_;
  const std::uint32_t lanes_;
  const ImageGrain grain_;
  cluster::ConfigurationSource* const source_;
  const std::vector<Peer*>& workers_;
  Host& host_;
  Log log_;
  std::uint64_t number_ = 1;
  bool serves_ = true;
  /// The records that it had when it came to serve, as long as not all of them count.
  std::optional<std::uint64_t> inherited_;
  bool is_dismissed_ = false;
  transport::TimePoint over_since_ = transport::TimePoint::max();  ///< max(): who follows is needed
  bool has_image_ = true;  ///< false: it joins a running job, and has nothing yet
  bool is_known_ = true;   ///< a configuration has named it
  // Of one that joins:
  ImageReceiver image_;
  Backlog backlog_;
  std::uint64_t most_backlog_bytes_ = 0;
  // For one that joins:
  bool follower_joins_ = false;   ///< as the configuration has it
  bool follower_has_all_ = true;  ///< it has, or was sent, all that counts
  bool follower_wants_image_ = false;
  bool has_begun_image_ = false;
  std::uint64_t image_records_ = 0;  ///< that the image has which was begun
  transport::TimePoint wants_image_since_;
  std::optional<ImageSender> image_sender_;
  transport::TimePoint next_piece_ = transport::TimePoint::min();  ///< of an image, or of what is kept
  LateRecords late_;
  std::string gives_up_because_;     ///< it cannot join; empty: it can
  std::string predecessor_address_;  ///< empty: none
  std::string follower_address_;     ///< empty: none
  Peer* predecessor_ = nullptr;      ///< once it is connected
  Peer* follower_ = nullptr;         ///< once it has said so
  bool follower_knows_ = false;      ///< it has its answer
  bool follows_ = false;             ///< the predecessor has said that it does
  transport::TimePoint next_watch_ = transport::TimePoint::min();
  transport::TimePoint next_attempt_ = transport::TimePoint::min();
  transport::AttemptLimit attempt_;  ///< to connect to the predecessor
  /// One for each neighbour: that one has come must not end the wait for the other.
  Wait waits_for_predecessor_;  ///< or for the first configuration
  Wait waits_for_follower_;
};

}  // namespace verbena::server
