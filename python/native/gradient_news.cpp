#include "native/gradient_news.h"

namespace py = pybind11;

namespace flockstep::python {

py::dict report_of(const torch_front::GradientNews& news) {
  py::dict report;
  report["rule"] = news.rule;
  report["step"] = news.step;
  report["event"] = news.report.event;
  report["coefficients"] = news.report.coefficients;
  report["norms"] = news.report.norms;
  report["agreement"] = news.report.agreement;
  report["cosines"] = news.cosines;
  report["guards"] = news.report.guards;
  report["waited_s"] = news.waited_s;
  report["transferred_s"] = news.transferred_s;
  report["exposed_s"] = news.exposed_s;
  report["bytes_sent"] = news.bytes_sent;
  return report;
}

}  // namespace flockstep::python
