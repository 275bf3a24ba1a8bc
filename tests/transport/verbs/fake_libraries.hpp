// The functions of the two libraries, as a fake fabric has them.
#pragma once

#include "transport/verbs/verbs_api.hpp"

namespace verbena::transport::fake {

struct State;

/// Those of libibverbs. The state must outlive the last call.
void add_verbs(VerbsApi& api, State& state);
/// Those of librdmacm. The same.
void add_connection_manager(VerbsApi& api, State& state);

}  // namespace verbena::transport::fake
