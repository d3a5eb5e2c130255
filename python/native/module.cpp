// flockstep._native: what the Python package calls. Each part binds itself, in a file of its own.
#include "native/parts.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "The compiled half of flockstep; its interface is the package's own business.";
  flockstep::python::bind_errors(module);
  flockstep::python::bind_launch(module);
  flockstep::python::bind_worker(module);
  flockstep::python::bind_model_averager(module);
  flockstep::python::bind_recording(module);
  flockstep::python::bind_communication_hook(module);
  flockstep::python::bind_sketched_hook(module);
  flockstep::python::bind_sketched_scale(module);
  flockstep::python::bind_stream_hook(module);
}
