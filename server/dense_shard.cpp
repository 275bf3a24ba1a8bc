#include "server/dense_shard.hpp"

namespace verbena::server {

absl::StatusOr<transport::RemoteDescriptor> DenseShard::grant(transport::Connection& connection,
                                                              bool /*is_own_node*/) const {
  const absl::StatusOr<transport::RemoteDescriptor> granted = connection.grant(*region);
  if (!granted.ok()) return granted.status();
  return granted->slice(static_cast<std::size_t>(rows.data() - region->bytes().data()), rows.size());
}

}  // namespace verbena::server
