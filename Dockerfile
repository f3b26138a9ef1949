# Butlers as an image: `docker build -t butlers .`, or with podman or buildah. See docs/install.md.
# BASE is any image with Python 3.11 or newer and glibc.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
RUN python3 -m venv /opt/butlers
COPY locks/run.txt locks/
RUN /opt/butlers/bin/pip install --no-cache-dir --require-hashes --no-deps -r locks/run.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
RUN /opt/butlers/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${BASE}
RUN useradd --uid 10001 --create-home butlers && install -d -o butlers -g butlers -m 700 /data
COPY --from=build /opt/butlers /opt/butlers
ENV BUTLERS_HOME=/data PATH=/opt/butlers/bin:/usr/local/bin:/usr/bin:/bin
USER butlers
WORKDIR /data
VOLUME /data
EXPOSE 8900
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
  CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8900/health', timeout=8)"]
CMD ["butlers", "up", "--host", "0.0.0.0", "--allow-remote"]
