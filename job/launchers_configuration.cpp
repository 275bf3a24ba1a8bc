#include "job/launchers_configuration.hpp"

#include <utility>

#include "cluster/remote_store.hpp"
#include "job/shared_word.hpp"

namespace verbena::job {

absl::StatusOr<Decided> map_decided(int descriptor) {
  absl::StatusOr<SharedWord> mapped = SharedWord::map(descriptor);
  if (!mapped.ok()) return mapped.status();
  const auto word = std::make_shared<const SharedWord>(*std::move(mapped));
  return Decided(word, &word->word());
}

std::shared_ptr<cluster::StoredConfiguration> launchers_configuration(
    const std::string& store, const std::shared_ptr<const transport::Secret>& secret, Decided decided,
    cluster::Decider decider) {
  return std::make_shared<cluster::StoredConfiguration>(std::make_unique<cluster::RemoteStore>(store, secret),
                                                        /*prefix=*/"", std::move(decided), decider);
}

}  // namespace verbena::job
