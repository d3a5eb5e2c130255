// A worker's recording in the hands of Python: flockstep._native.Recording. Whatever runs the worker's steps gets it
// and adds to it.
#pragma once

#include "native/worker.h"
#include "torch/recording.h"

namespace flockstep::python {

class Recording : public torch_front::Recording {
 public:
  Recording(std::shared_ptr<Worker> worker, torch_front::RecordingSettings settings)
      : torch_front::Recording(worker->context(), std::move(settings)), worker_(std::move(worker)) {}

 private:
  const std::shared_ptr<Worker> worker_;  // whose context it uses
};

}  // namespace flockstep::python
