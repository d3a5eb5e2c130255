# SPDX-License-Identifier: Apache-2.0
"""Spack: the command and the C++ library. packaging/README.md says what has to be filled in at a release."""

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Flockstep(CMakePackage):
    """Data-parallel deep learning without lockstep: gradient rules and model averaging over threads and MPI."""

    url = "URL_OF_THE_ARCHIVE"
    license("Apache-2.0")

    version("0.1.0", sha256="SHA256_OF_THE_ARCHIVE")

    variant("mpi", default=True, description="the mpi engine")
    variant("sim", default=False, description="the sim engine, over SimGrid")
    variant("mesh", default=True, description="the mesh engine, for runs that outlive their workers")
    variant("lab", default=True, description="the command, its tasks, comparisons and benchmarks")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("fmt")
    depends_on("spdlog +fmt_external")
    depends_on("nlohmann-json")
    depends_on("highway")
    depends_on("mpi", when="+mpi")
    depends_on("simgrid@3.32:", when="+sim")
    depends_on("boost", when="+sim")
    depends_on("asio@1.18:", when="+mesh")
    depends_on("libsodium", when="+mesh")
    depends_on("cli11", when="+lab")
    depends_on("tomlplusplus", when="+lab")
    depends_on("zlib-api", when="+lab")
    conflicts("%gcc@:11", msg="C++20 needs g++ 12 or newer")

    def cmake_args(self):
        return [
            self.define_from_variant("FLOCKSTEP_MPI", "mpi"),
            self.define_from_variant("FLOCKSTEP_SIM", "sim"),
            self.define_from_variant("FLOCKSTEP_MESH", "mesh"),
            self.define("FLOCKSTEP_TORCH", False),
            self.define_from_variant("FLOCKSTEP_LAB", "lab"),
            self.define("FLOCKSTEP_PYTHON", False),
            self.define("FLOCKSTEP_TESTS", False),
            self.define("FLOCKSTEP_PNG", False),
            self.define("FLOCKSTEP_JPEG", False),
            self.define("FLOCKSTEP_INSTALL", True),
            self.define("FLOCKSTEP_WARNINGS_ARE_ERRORS", False),
        ]
