// The parts of flockstep._native, each in the file of its name.
#pragma once

#include <torch/extension.h>

namespace flockstep::python {

void bind_errors(pybind11::module_& module);              // first: what the others throw arrives as flockstep.Error
void bind_launch(pybind11::module_& module);              // workers that may end and are started again
void bind_worker(pybind11::module_& module);              // a worker of the c10d engine
void bind_recording(pybind11::module_& module);           // what a worker measures, and its files
void bind_communication_hook(pybind11::module_& module);  // a gradient rule behind a communication hook
void bind_sketched_hook(pybind11::module_& module);       // the same where DDP's own all-reduce carries gradients
void bind_stream_hook(pybind11::module_& module);         // and where they are on GPUs, in the order of streams
void bind_sketched_scale(pybind11::module_& module);      // what scales sketched buckets on GPUs
void bind_model_averager(pybind11::module_& module);      // the tensors of an averager

}  // namespace flockstep::python
