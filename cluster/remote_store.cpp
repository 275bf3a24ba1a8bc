#include "cluster/remote_store.hpp"

#include <algorithm>
#include <utility>

#include "cluster/store_messages.hpp"
#include "cluster/unix_socket.hpp"

namespace verbena::cluster {
namespace {

constexpr Duration kGreetingPatience = std::chrono::seconds(3);
constexpr std::size_t kEnoughBytesAPoll = 4 << 20;
constexpr std::size_t kEnoughAskedBytes = 1 << 20;  // before more is asked

}  // namespace

void RemoteStore::add_descriptors(std::vector<pollfd>& wanted) const {
  if (!stream_) return;
  const int out = stream_->unsent_bytes() > 0 ? POLLOUT : 0;
  wanted.push_back({stream_->descriptor(), static_cast<short>(POLLIN | out), 0});
}

bool RemoteStore::has_something_to_ask() const {
  const auto waits = [](const auto& each) { return !each.second.is_asked; };
  return std::any_of(pending().begin(), pending().end(), waits) ||
         std::any_of(watches().begin(), watches().end(), waits);
}

TimePoint RemoteStore::next_step() const {
  if (!stream_) return has_something_to_ask() ? attempts_.next() : TimePoint::max();
  if (!is_open_) return greeting_deadline_;
  const bool can_ask = has_something_to_ask() && stream_->unsent_bytes() < kEnoughAskedBytes;
  return can_ask || stream_->has_whole_frame() ? TimePoint::min() : TimePoint::max();
}

void RemoteStore::step(TimePoint now) {
  if (!stream_ && now >= attempts_.next() && has_something_to_ask()) connect(now);
  if (!stream_) return;
  bool is_sound = true;
  const bool is_open = stream_->read(kMostServerFrameBytes, kEnoughBytesAPoll,
                                     [&](std::string_view frame) { return is_sound = hear(frame); });
  if (!is_open) return disconnect(now, is_sound ? "it has gone" : "it does not speak as a store of this job");
  if (!is_open_ && now >= greeting_deadline_) return disconnect(now, "it does not answer");
  if (is_open_) ask();
  if (!stream_->write()) disconnect(now, "it has gone");
}

void RemoteStore::connect(TimePoint now) {
  absl::StatusOr<base::FileDescriptor> socket = connect_to_name(name_);
  const absl::StatusOr<transport::Nonce> nonce = transport::fresh_nonce();
  if (!socket.ok() || !nonce.ok())
    return disconnect(now, std::string((socket.ok() ? nonce.status() : socket.status()).message()));
  stream_.emplace(*std::move(socket));
  ours_ = *nonce;
  stream_->add(encode(Greeting{ours_}));
  greeting_deadline_ = now + kGreetingPatience;
}

void RemoteStore::disconnect(TimePoint now, std::string_view why) {
  stream_.reset();
  is_open_ = false;
  attempts_.fail(now);
  set_trouble(std::string(why));
  lose_all(why);
}

bool RemoteStore::hear(std::string_view frame) {
  if (!is_open_) {
    const std::optional<Challenge> challenge = decode_challenge(frame);
    if (!challenge ||
        !transport::is_proof(challenge->proof, secret_.get(), kStoreRole, {ours_, challenge->nonce})) {
      return false;
    }
    stream_->add(encode(transport::prove(secret_.get(), kStoreClientRole, {ours_, challenge->nonce})));
    is_open_ = true;
    return true;
  }
  attempts_.succeed();
  set_trouble("");
  std::optional<ServerMessage> message = decode_server_message(frame);
  if (!message) return false;
  if (auto* answered = std::get_if<Answered>(&*message)) {
    const auto asked = pending().find(answered->request);
    if (asked == pending().end()) return true;  // given up
    if (!asked->second.is_asked ||
        (answered->answer.ok() && !answers(asked->second.request, *answered->answer))) {
      return false;
    }
    finish(answered->request, std::move(answered->answer));
  } else {
    auto& happened = std::get<Happened>(*message);
    tell(happened.watch, std::move(happened.events));
  }
  return true;
}

void RemoteStore::ask() {
  for (auto& [number, each] : pending()) {
    if (each.is_asked) continue;
    if (stream_->unsent_bytes() >= kEnoughAskedBytes) return;
    each.is_asked = true;
    stream_->add(encode(Ask{number, each.request}));
  }
  for (auto& [id, watch] : watches()) {
    if (watch.is_asked) continue;
    watch.is_asked = true;
    stream_->add(encode(BeginWatch{.watch = id, .prefix = watch.prefix, .from = watch.next}));
  }
}

void RemoteStore::on_unwatched(WatchId watch) {
  if (is_open_) stream_->add(encode(EndWatch{watch}));
}

}  // namespace verbena::cluster
