#include "runtime/model_transfer.h"

#include <utility>

#include "base/partition.h"

namespace flockstep::runtime {
namespace {

constexpr engines::Tag kModelTag = 0;
constexpr std::size_t kModelChunkFloats = std::size_t{1} << 22;  // 16 MiB

std::size_t chunks_of(std::size_t size) { return (size + kModelChunkFloats - 1) / kModelChunkFloats; }

}  // namespace

void ModelTransfer::send(int peer, const std::function<void(std::span<float>)>& fill, std::function<void()> done) {
  const std::size_t count = chunks_of(size_);
  const auto sent = sent_.insert(
      sent_.end(),
      Sent{context_.engine().memory().allocate<float>(size_, "model for a worker that comes back"), count});
  const std::span<float> model = sent->model.span();
  fill(model);
  const auto end_of_chunk = [this, sent, done] {
    if (--sent->chunks > 0) return;
    sent_.erase(sent);
    done();
  };
  for (std::size_t chunk = 0; chunk < count; ++chunk)
    host_.send(peer, kModelTag,
               engines::const_bytes_of(std::span<const float>(base::Partition(size_, count).of(model, chunk))),
               end_of_chunk, AgentHost::Load::gift, end_of_chunk);
}

void ModelTransfer::receive(int peer, std::span<float> model, std::function<void()> done) {
  to_receive_ = chunks_of(size_);
  const base::Partition chunks(size_, to_receive_);
  for (std::size_t chunk = 0, count = to_receive_; chunk < count; ++chunk)
    host_.receive(
        peer, kModelTag, engines::bytes_of(chunks.of(model, chunk)),
        [this, done] {
          if (--to_receive_ == 0) done();
        },
        AgentHost::Load::model);
}

}  // namespace flockstep::runtime
