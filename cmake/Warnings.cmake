# Strict warnings for our own targets only: installed and third-party headers stay as they are.
function(flockstep_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
endfunction()
