"""The service process: worker, scheduler, telemetry, logs, doctor."""
