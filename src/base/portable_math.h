// log and exp from exactly rounded operations only: libm's last bit differs between platforms and processors.
#pragma once

namespace flockstep::base {

double portable_log(double x);  // x > 0; NaN gives NaN
double portable_exp(double x);  // x < 700; NaN gives NaN

}  // namespace flockstep::base
