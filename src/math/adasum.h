// Adasum: pairs are merged over a tree. x of p workers and y of q workers give
// (1 - p/(p+q) x.y/||x||^2) x + (1 - q/(p+q) x.y/||y||^2) y, so that orthogonal ones add up and parallel ones average,
// for any number of workers; p = q is the published form. The pair rule is not associative, so the tree is part of the
// definition: neighbours (0,1), (2,3), ..., an odd last one moves up unchanged, repeat. Hence who is which rank
// matters.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

Rule adasum();

}  // namespace flockstep::math
