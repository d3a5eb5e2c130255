# The command and the PyTorch package for the CPU: the first stage compiles, the second has what they need at run time.
#
#   docker build -t flockstep .
#   docker run --rm --shm-size 1g flockstep flockstep compare --task images --workers 4
#   docker run --rm --shm-size 1g flockstep torchrun --standalone --nproc-per-node 2 examples/pytorch_ddp/adacons.py
#
# For GPUs: docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 -t flockstep .
FROM debian:12 AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_EXTRA_INDEX_URL=$TORCH_INDEX PIP_NO_CACHE_DIR=1
WORKDIR /opt/flockstep
COPY scripts scripts
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && scripts/setup.sh --to-run
COPY . .
RUN cmake --preset release && cmake --build --preset release && cmake --install build/release --prefix /opt/installed
RUN build/venv/bin/pip install $(grep '^scikit-build-core==' scripts/requirements-tests.txt) \
 && build/venv/bin/pip wheel --no-build-isolation --no-deps -w /opt/wheels . \
 && build/venv/bin/pip install --no-deps /opt/wheels/*.whl \
 && build/venv/bin/pip uninstall -y scikit-build-core

FROM debian:12-slim
# The libraries that the command and the package are linked with; python3 for build/venv; mpirun, and ssh for several hosts.
RUN apt-get update && apt-get install -y --no-install-recommends \
      libfmt9 libhwy1 libjpeg62-turbo libopenmpi3 libpng16-16 libsimgrid3.32 libsodium23 libspdlog1.10 libstdc++6 zlib1g \
      openmpi-bin openssh-client python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home flockstep && install -d -o flockstep /opt/flockstep
# At the same place as before: the command's tasks look for torch there.
COPY --from=build /opt/flockstep/build/venv /opt/flockstep/build/venv
COPY --from=build /opt/installed /usr/local
COPY data /opt/flockstep/data
COPY examples /opt/flockstep/examples
ENV PATH=/usr/local/bin:/opt/flockstep/build/venv/bin:/usr/bin:/bin FLOCKSTEP_PYTHON=/opt/flockstep/build/venv/bin/python
USER flockstep
WORKDIR /opt/flockstep
CMD ["flockstep", "--help"]
