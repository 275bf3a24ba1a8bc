#include "job/pmix_rendezvous.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "transport/secret.hpp"

namespace verbena::job {

/// The library's functions; their names there begin with PMIx_. Values are made and released here, because
/// the library does it with macros in some versions and with functions in others.
struct PmixRendezvous::Library {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Abort) abort;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Fence_nb) fence_nb;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Register_event_handler) register_event_handler;
  decltype(&PMIx_Error_string) error_string;

  static absl::StatusOr<std::unique_ptr<const Library>> load();

  [[nodiscard]] absl::Status status(pmix_status_t code, std::string_view what) const {
    if (code == PMIX_SUCCESS) return absl::OkStatus();
    return absl::UnavailableError(fmt::format("PMIx: {}: {}", what, error_string(code)));
  }
};

namespace {

constexpr const char* kFile = "libpmix.so.2";
constexpr auto kSlice = std::chrono::milliseconds(50);  // how often a wait checks whether it must end
constexpr auto kStoppedPatience = std::chrono::milliseconds(500);
constexpr pmix_status_t kLostConnectionToServer = -101;  // the code of older versions of the library
constexpr int kGetSeconds = 30;                          // what a fence has brought is here already

struct FreeValue {
  void operator()(pmix_value_t* value) const {
    if (value->type == PMIX_STRING && value->data.string != nullptr) {
      ::explicit_bzero(value->data.string, std::strlen(value->data.string));  // it may be the secret
      std::free(value->data.string);
    }
    std::free(value);
  }
};
using Value = std::unique_ptr<pmix_value_t, FreeValue>;

pmix_proc_t process(const std::string& name_space, pmix_rank_t rank) {
  pmix_proc_t proc{};
  name_space.copy(proc.nspace, PMIX_MAX_NSLEN);
  proc.rank = rank;
  return proc;
}

pmix_info_t attribute(std::string_view key) {
  pmix_info_t info{};
  key.copy(info.key, PMIX_MAX_KEYLEN);
  return info;
}

pmix_info_t flag(std::string_view key) {
  pmix_info_t info = attribute(key);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

pmix_info_t seconds(std::string_view key, int count) {
  pmix_info_t info = attribute(key);
  info.value.type = PMIX_INT;
  info.value.data.integer = count;
  return info;
}

std::optional<std::uint32_t> unsigned_of(const pmix_value_t& value) {
  switch (value.type) {
    case PMIX_UINT32:
      return value.data.uint32;
    case PMIX_UINT16:
      return value.data.uint16;
    default:
      return std::nullopt;
  }
}

/// Shared with the library's thread, which may call back when nobody waits any more.
struct FenceState {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<pmix_status_t> result;
};

void fence_done(pmix_status_t status, void* data) {
  const std::unique_ptr<std::shared_ptr<FenceState>> state(static_cast<std::shared_ptr<FenceState>*>(data));
  const std::lock_guard lock((*state)->mutex);
  (*state)->result = status;
  (*state)->changed.notify_all();
}

void on_starter_lost(std::size_t /*handler*/, pmix_status_t /*status*/, const pmix_proc_t* /*source*/,
                     pmix_info_t* /*info*/, std::size_t /*infos*/, pmix_info_t* /*results*/,
                     std::size_t /*results_count*/, pmix_event_notification_cbfunc_fn_t done, void* data) {
  ::kill(::getpid(), SIGTERM);
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

void on_registered(pmix_status_t /*status*/, std::size_t /*handler*/, void* /*data*/) {}

}  // namespace

absl::StatusOr<std::unique_ptr<const PmixRendezvous::Library>> PmixRendezvous::Library::load() {
  void* handle = ::dlopen(kFile, RTLD_NOW | RTLD_GLOBAL);  // its plugins look for its symbols
  if (handle == nullptr) {
    return absl::UnavailableError(fmt::format(
        "{} cannot be loaded ({}); it is needed where mpirun or srun starts the processes: install "
        "the package libpmix2",
        kFile, ::dlerror()));
  }
  auto library = std::make_unique<Library>();
  absl::Status status;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr) {
      status.Update(absl::UnavailableError(fmt::format("{} has no function {}", kFile, name)));
    }
  };
  find("PMIx_Init", library->init);
  find("PMIx_Finalize", library->finalize);
  find("PMIx_Abort", library->abort);
  find("PMIx_Put", library->put);
  find("PMIx_Commit", library->commit);
  find("PMIx_Fence_nb", library->fence_nb);
  find("PMIx_Get", library->get);
  find("PMIx_Register_event_handler", library->register_event_handler);
  find("PMIx_Error_string", library->error_string);
  if (!status.ok()) return status;
  return std::unique_ptr<const Library>(std::move(library));
}

absl::StatusOr<std::unique_ptr<PmixRendezvous>> PmixRendezvous::join() {
  absl::StatusOr<std::unique_ptr<const Library>> library = Library::load();
  if (!library.ok()) return library.status();
  pmix_proc_t self{};
  const absl::Status joined = (*library)->status((*library)->init(&self, nullptr, 0), "cannot join the job");
  if (!joined.ok()) return joined;
  const auto about = [&](pmix_rank_t rank, const char* key) -> std::optional<std::uint32_t> {
    const pmix_proc_t proc = process(self.nspace, rank);
    pmix_value_t* raw = nullptr;
    if ((*library)->get(&proc, key, nullptr, 0, &raw) != PMIX_SUCCESS || raw == nullptr) return std::nullopt;
    return unsigned_of(*Value(raw));
  };
  const std::optional<std::uint32_t> size = about(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
  if (!size || self.rank >= *size) {
    (*library)->finalize(nullptr, 0);
    return absl::UnavailableError("PMIx: the size of the job is not known");
  }
  static std::array<pmix_status_t, 2> lost = {PMIX_ERR_LOST_CONNECTION, kLostConnectionToServer};
  (*library)->register_event_handler(lost.data(), lost.size(), nullptr, 0, on_starter_lost, on_registered,
                                     nullptr);
  return std::unique_ptr<PmixRendezvous>(
      new PmixRendezvous(*std::move(library), self.nspace, self.rank, *size));
}

PmixRendezvous::PmixRendezvous(std::unique_ptr<const Library> library, std::string name_space,
                               std::uint32_t rank, std::uint32_t size)
    : PeerRendezvous(rank, size), library_(std::move(library)), name_space_(std::move(name_space)) {}

PmixRendezvous::~PmixRendezvous() {
  library_->finalize(nullptr, 0);
}

absl::Status PmixRendezvous::put(const std::string& key, const std::string& value) {
  std::string text = value;
  pmix_value_t given{};
  given.type = PMIX_STRING;
  given.data.string = text.data();
  absl::Status told = library_->status(library_->put(PMIX_GLOBAL, key.c_str(), &given), "cannot tell " + key);
  transport::wipe(text);  // it may be the secret
  return told;
}

absl::Status PmixRendezvous::fence(std::chrono::milliseconds patience, const Stopped& stopped) {
  absl::Status committed = library_->status(library_->commit(), "cannot tell the others");
  if (!committed.ok()) return committed;
  const auto state = std::make_shared<FenceState>();
  // Static, because the library may go on reading it after the call.
  static const pmix_info_t kCollect = flag(PMIX_COLLECT_DATA);
  auto owner = std::make_unique<std::shared_ptr<FenceState>>(state);
  const pmix_status_t asked = library_->fence_nb(nullptr, 0, &kCollect, 1, fence_done, owner.get());
  if (asked != PMIX_SUCCESS && asked != PMIX_OPERATION_SUCCEEDED) {
    return library_->status(asked, "cannot meet the others");
  }
  if (asked == PMIX_OPERATION_SUCCEEDED) return absl::OkStatus();  // done, and nobody will call back
  (void)owner.release();                                           // fence_done() has it
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(state->mutex);
  while (!state->result) {
    if (stopped()) {
      // A process that leaves before the others have come can make the server of PMIx 4.2, in mpirun, lock a
      // mutex that it has freed, and hang for ever. So wait a moment: processes that fail come soon.
      state->changed.wait_for(lock, kStoppedPatience, [&] { return state->result.has_value(); });
      return absl::CancelledError("stopped");
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format("not all {} processes have come together within {} s",
                                                     size(), patience.count() / 1000));
    }
    state->changed.wait_for(lock, kSlice);
  }
  return library_->status(*state->result, "the others have not come");
}

absl::StatusOr<std::string> PmixRendezvous::get(std::uint32_t rank, const std::string& key) {
  const pmix_proc_t proc = process(name_space_, rank);
  const pmix_info_t patience = seconds(PMIX_TIMEOUT, kGetSeconds);
  pmix_value_t* raw = nullptr;
  const pmix_status_t got = library_->get(&proc, key.c_str(), &patience, 1, &raw);
  if (got != PMIX_SUCCESS || raw == nullptr) {
    return absl::NotFoundError(
        fmt::format("process {} has not told its {}: {}", rank, key, library_->error_string(got)));
  }
  const Value value(raw);
  if (value->type != PMIX_STRING || value->data.string == nullptr) {
    return absl::NotFoundError(fmt::format("process {} has told its {} in no text", rank, key));
  }
  return std::string(value->data.string);
}

void PmixRendezvous::abort(int exit_status, const std::string& why) {
  library_->abort(exit_status, why.c_str(), nullptr, 0);
}

}  // namespace verbena::job
