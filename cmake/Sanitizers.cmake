# FLOCKSTEP_SANITIZE: a value for -fsanitize=, such as "address,undefined" or "thread". Empty: none.
set(FLOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize=")
if(FLOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${FLOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FLOCKSTEP_SANITIZE})
endif()
