#include "transport/verbs/receives.hpp"

#include "transport/verbs/work_request_id.hpp"

namespace verbena::transport::verbs {

void Receives::restart() {
  posted_ = 0;
  free_.clear();
  for (std::uint32_t receive = 0; receive < count_; ++receive) free_.push_back(receive);
}

int Receives::post(const VerbsApi& api, ibv_qp* queue_pair) {
  if (free_.empty()) return 0;
  requests_.assign(free_.size(), {});
  pieces_.assign(free_.size(), {});
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const std::span<std::byte> bytes = buffer(free_[i]);
    pieces_[i] = {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()),
                  .length = static_cast<std::uint32_t>(bytes.size()),
                  .lkey = buffers_.key};
    requests_[i].wr_id = receive_id(serial_, free_[i]);
    requests_[i].next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
    requests_[i].sg_list = &pieces_[i];
    requests_[i].num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  const int error = api.post_recv(queue_pair, requests_.data(), &bad);
  const bool known = error != 0 && bad >= requests_.data() && bad < requests_.data() + requests_.size();
  posted_ += error == 0 ? static_cast<std::uint32_t>(requests_.size())
             : known    ? static_cast<std::uint32_t>(bad - requests_.data())
                        : 0;
  free_.clear();
  return error;
}

}  // namespace verbena::transport::verbs
