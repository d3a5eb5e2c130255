// Adasum: pairs of gradients are merged over a tree, (1 - x.y/(2||x||^2)) x + (1 - x.y/(2||y||^2)) y, so that
// orthogonal ones add and parallel ones average. The pair rule is not associative, so the tree is part of the
// definition: neighbours (0,1), (2,3), ..., an odd last one moves up unchanged, repeat. Hence who is which rank
// matters.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

Rule adasum();

}  // namespace flockstep::math
