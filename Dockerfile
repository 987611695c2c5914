# The service as an image: no compiler, no shell script, no root, and nothing written outside /tmp.
#   docker build -t signoff .
# Your agents are mounted at /app, as compose.yaml does, or go into an image of your own:
#   FROM signoff
#   COPY my_agents.py checkpoints.toml /app/
FROM python:3.12-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/signoff
WORKDIR /src
# Dependencies first: they change less often than the code.
COPY bootstrap.py constraints.txt ./
RUN python bootstrap.py --list > service.txt \
 && python bootstrap.py --list build > build.txt \
 && /opt/signoff/bin/pip install --no-deps --require-hashes -r service.txt \
 && pip install --no-deps --require-hashes -r build.txt
COPY pyproject.toml README.md LICENSE manifest.yml ./
COPY packages packages
COPY signoff signoff
COPY agent agent
COPY slackbot slackbot
COPY alembic alembic
RUN python -m hatchling build -t wheel \
 && /opt/signoff/bin/pip install --no-deps dist/signoff-*.whl

FROM python:3.12-slim
LABEL org.opencontainers.image.title="signoff" \
      org.opencontainers.image.description="Durable human approvals for AI agents, in Slack." \
      org.opencontainers.image.licenses="MIT"
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin signoff
COPY --from=build /opt/signoff /opt/signoff
ENV PATH=/opt/signoff/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SIGNOFF_HOST=0.0.0.0 \
    SIGNOFF_PORT=8080 \
    SIGNOFF_HEALTH_PORT=8081 \
    SIGNOFF_LOG_FORMAT=json
# checkpoints.toml and the modules of SIGNOFF_AGENTS are looked for here.
WORKDIR /app
USER 10001:10001
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ['SIGNOFF_HEALTH_PORT']}/healthz\", timeout=2)"]
ENTRYPOINT ["signoff"]
CMD ["serve"]
