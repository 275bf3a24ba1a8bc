#include "apps/application.hpp"
#include "apps/kge/kge.hpp"
#include "apps/lda/lda.hpp"
#include "apps/mf/mf.hpp"
#include "apps/word2vec/word2vec.hpp"

namespace verbena::apps {

std::vector<std::unique_ptr<Application>> make_applications() {
  std::vector<std::unique_ptr<Application>> applications;
  applications.push_back(make_lda());
  applications.push_back(make_mf());
  applications.push_back(make_kge());
  applications.push_back(make_word2vec());
  return applications;
}

}  // namespace verbena::apps
