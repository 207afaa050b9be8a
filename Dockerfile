# Two images from one file:
#
#   docker build -t tabglot:0.1.0 .                          serves; no torch, no pandas
#   docker build -t tabglot-train:0.1.0 --target train .     fits bundles
#
# The tag below moves with patches of Python and Debian. To build the same image twice, pin its digest:
#
#   docker buildx imagetools inspect python:3.11-slim-bookworm
#   docker build --build-arg PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:... .
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# --- What serving imports. Rebuilt only when pyproject.toml changes.
FROM ${PYTHON_IMAGE} AS dependencies
# An index of your own, if PyPI cannot be reached; pip reads it by itself.
ARG PIP_INDEX_URL
WORKDIR /src
COPY pyproject.toml ./
# pip stays outside the environment it fills: the final image needs none.
RUN python -m venv --without-pip /opt/venv \
    && python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > base.txt \
    && pip --python /opt/venv/bin/python install --no-cache-dir --requirement base.txt

# --- What fitting imports beside that.
FROM dependencies AS train-dependencies
# CPU builds of torch: PyPI's carry gigabytes of CUDA. Empty: PyPI's.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; print(*extras['train'], *extras['demo'], sep='\n')" > extras.txt \
    && PIP_EXTRA_INDEX_URL="${TORCH_INDEX}" pip --python /opt/venv/bin/python install --no-cache-dir --requirement base.txt --requirement extras.txt

# --- Our own code, apart from what it imports: a new release is a layer of a megabyte.
FROM ${PYTHON_IMAGE} AS code
ARG PIP_INDEX_URL
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY model model
COPY service service
COPY training training
COPY deploy/healthcheck.py deploy/healthcheck.py
RUN pip install --no-cache-dir --no-deps --target /opt/tabglot . \
    && install -D --mode=0644 deploy/healthcheck.py /opt/probe/healthcheck.py

# --- The same without training, which nothing here could run.
FROM code AS serve-code
RUN rm -r /opt/tabglot/training

# --- What both images stand on.
FROM ${PYTHON_IMAGE} AS base
# The user has a number, so that Kubernetes can see it is not root, and a name, since torch asks for one.
# A named volume takes over the owner of the folder it is first mounted on.
# The image comes without the standard library's bytecode, and a read-only root can keep none: compile it once.
# pip and setuptools are of no use to the service, but to an intruder.
RUN groupadd --gid 10001 tabglot \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /tmp --shell /usr/sbin/nologin tabglot \
    && install --directory --owner=10001 --group=10001 /var/lib/tabglot \
    && python -m compileall -q -x "/(site-packages|lib2to3|idlelib|turtledemo)/" /usr/local/lib/python3.11 \
    && pip uninstall --yes --root-user-action=ignore setuptools wheel pip
# Safe path: `python -m` would otherwise import from the working folder first.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/tabglot \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    TABGLOT_REGISTRY=sqlite:////var/lib/tabglot/registry.db \
    TABGLOT_STORE=/var/lib/tabglot/bundles
# All that is written goes here or to /tmp; the root may be read-only.
VOLUME ["/var/lib/tabglot"]
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Tabglot" \
      org.opencontainers.image.description="One model for several tables with partly overlapping columns: predict, impute, match" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# --- docker build --target train
FROM base AS train
COPY --from=train-dependencies /opt/venv /opt/venv
COPY --from=code /opt/tabglot /opt/tabglot
ENTRYPOINT ["python", "-m", "training"]
CMD ["--help"]

# --- The last stage is what a plain `docker build` makes.
FROM base AS serve
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=serve-code /opt/probe /opt/probe
COPY --from=serve-code /opt/tabglot /opt/tabglot
# All addresses of the container; which of the host's lead there is for `--publish` to say.
ENV TABGLOT_HOST=0.0.0.0 \
    TABGLOT_PORT=8000
EXPOSE 8000
# Isolated, without site-packages: starts in a few hundredths of a second.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-I", "-S", "/opt/probe/healthcheck.py"]
ENTRYPOINT ["python", "-m", "service"]
