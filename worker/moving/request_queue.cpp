#include "worker/moving/request_queue.hpp"

#include <algorithm>
#include <cassert>

namespace verbena::worker {

std::size_t RequestQueue::index(Kind kind) {
  const auto found = std::find(kQueued.begin(), kQueued.end(), kind);
  assert(found != kQueued.end());
  return static_cast<std::size_t>(found - kQueued.begin());
}

void RequestQueue::add(std::uint32_t server, Kind kind, Row row) {
  if (!servers_[server].is_dead) servers_[server].rows[index(kind)].push_back(row);
}

void RequestQueue::send(Send send) {
  for (std::uint32_t server = 0; server < servers_.size(); ++server) {
    for (const Kind kind : kQueued) {
      std::vector<Row>& rows = servers_[server].rows[index(kind)];
      std::size_t sent = 0;
      while (sent < rows.size()) {
        const std::size_t some = send_some(server, kind, std::span(rows).subspan(sent), send);
        if (some == 0) break;
        sent += some;
      }
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(sent));
    }
  }
}

std::size_t RequestQueue::send_some(std::uint32_t server, Kind kind, std::span<const Row> rows,
                                    Send send) const {
  protocol::MessageRoom<Row> room;
  std::size_t count = 0;
  while (count < rows.size() && room.take(rows[count])) ++count;
  const auto some = rows.first(count);
  return send(server, {.kind = kind, .table = table_, .rows = {some.begin(), some.end()}}) ? count : 0;
}

void RequestQueue::drop_server(std::uint32_t server) {
  servers_[server] = {.rows = {}, .is_dead = true};
}

}  // namespace verbena::worker
