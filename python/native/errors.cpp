#include "native/errors.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include <string>

#include "base/text.h"
#include "flockstep/error.h"
#include "native/parts.h"

namespace py = pybind11;

namespace flockstep::python {
namespace {

// flockstep._errors.BY_CODE. Never given back: errors may come while the interpreter ends.
PyObject* classes_by_code = nullptr;

// Needs the interpreter's lock.
PyObject* class_of(ErrorCode code) {
  return PyDict_GetItemString(classes_by_code, std::string(to_string(code)).c_str());
}

// Torch hands a text over and nothing else, so it holds all there is to know; flockstep.Error takes it apart. Where it
// is printed as it stands, it can be read.
std::string text_of(const Error& error) {
  const std::string engine = error.engine().empty() ? "" : " on " + error.engine();
  return base::concatenated(error.what(), " [", to_string(error.code()), engine, "]");
}

class ErrorForTorch : public torch::PyTorchError {
 public:
  explicit ErrorForTorch(const Error& error) : PyTorchError(text_of(error)), code_(error.code()) {}
  PyObject* python_type() override { return class_of(code_); }

 private:
  ErrorCode code_;
};

// Raised by Python code on its way through a future, which only C++ can end with an error.
class RaisedInPython : public torch::PyTorchError {
 public:
  RaisedInPython(PyObject* type, const std::string& text) : PyTorchError(text), type_(type) {}
  PyObject* python_type() override { return type_; }

 private:
  PyObject* type_;  // never given back: the error may outlive the interpreter
};

void fail(torch::jit::PythonFutureWrapper& future, const py::type& type, const std::string& text) {
  const auto error = std::make_exception_ptr(RaisedInPython(py::type(type).release().ptr(), text));
  const py::gil_scoped_release released;
  future.fut->setErrorIfNeeded(error);
}

}  // namespace

std::exception_ptr for_python(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return std::make_exception_ptr(ErrorForTorch(known));
  } catch (...) {
    return error;
  }
}

void bind_errors(py::module_& module) {
  classes_by_code = py::module_::import("flockstep._errors").attr("BY_CODE").cast<py::object>().release().ptr();
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(for_python(thrown));
    } catch (ErrorForTorch& error) {
      py::set_error(error.python_type(), error.what());
    }
  });
  module.def("fail", &fail, py::arg("future"), py::arg("type"), py::arg("text"));
}

}  // namespace flockstep::python
