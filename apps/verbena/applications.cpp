#include "apps/application.hpp"
#if __has_include("apps/lda/lda.hpp")
#include "apps/lda/lda.hpp"
#endif
#if __has_include("apps/mf/mf.hpp")
#include "apps/mf/mf.hpp"
#endif

namespace verbena::apps {

std::vector<std::unique_ptr<Application>> make_applications() {
  std::vector<std::unique_ptr<Application>> applications;
#if __has_include("apps/lda/lda.hpp")
  applications.push_back(make_lda());
#endif
#if __has_include("apps/mf/mf.hpp")
  applications.push_back(make_mf());
#endif
  return applications;
}

}  // namespace verbena::apps
