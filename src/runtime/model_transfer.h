// Whole models between two agents, for a worker that comes back: sent from a copy, so that the sender goes on
// meanwhile.
//
// Nothing else is under way between the two then, so their other messages may use the same tag.
#pragma once

#include <functional>
#include <list>

#include "runtime/agent_host.h"

namespace flockstep::runtime {

class ModelTransfer {
 public:
  // `host` need not be there yet, and must end before this does.
  ModelTransfer(Context& context, AgentHost& host, std::size_t size) : context_(context), host_(host), size_(size) {}

  // Sends the peer what `fill` fills; `done` is called once nothing of it is under way.
  void send(
      int peer, const std::function<void(std::span<float>)>& fill, std::function<void()> done = [] {});
  // One at a time; `done` is called once the model is there, and never where the peer is lost before.
  void receive(int peer, std::span<float> model, std::function<void()> done);

 private:
  struct Sent {
    base::Buffer<float> model;
    std::size_t chunks;  // still under way
  };

  Context& context_;
  AgentHost& host_;
  const std::size_t size_;
  std::list<Sent> sent_;
  std::size_t to_receive_ = 0;  // chunks
};

}  // namespace flockstep::runtime
