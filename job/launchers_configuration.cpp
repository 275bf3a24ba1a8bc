#include "job/launchers_configuration.hpp"

#include <utility>

#include "cluster/remote_store.hpp"
#include "job/server_place.hpp"
#include "job/shared_word.hpp"

namespace verbena::job {

absl::StatusOr<Decided> map_decided(int descriptor) {
  absl::StatusOr<SharedWord> mapped = SharedWord::map(descriptor);
  if (!mapped.ok()) return mapped.status();
  const auto word = std::make_shared<const SharedWord>(*std::move(mapped));
  return Decided(word, &word->word());
}

std::shared_ptr<cluster::StoredConfiguration> launchers_configuration(
    std::int64_t launcher, const std::shared_ptr<const transport::Secret>& secret, Decided decided,
    cluster::Decider decider) {
  return std::make_shared<cluster::StoredConfiguration>(
      std::make_unique<cluster::RemoteStore>(place_of_store(launcher), secret), /*prefix=*/"",
      std::move(decided), decider);
}

}  // namespace verbena::job
