# Strict warnings for our own targets only: installed and third-party headers stay as they are.
# g++ 12 and 13 report two kinds inside fmt 9 and libstdc++ after inlining, where there is nothing to mend on our side: these
# stay warnings.
function(flockstep_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror
    $<$<CXX_COMPILER_ID:GNU>:-Wno-error=array-bounds -Wno-error=stringop-overflow>)
endfunction()
