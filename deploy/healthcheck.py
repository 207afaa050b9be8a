"""The image's HEALTHCHECK: exit code 0 if the service on this host answers /health/live, else 1.

Live, not ready: a service without a model is not broken, it waits for one to be published; and what
restarts unhealthy containers would only drop requests under way.
"""

import http.client  # not urllib: that would ask a proxy named in the environment
import os
import sys


def is_live(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


if __name__ == "__main__":
    sys.exit(not is_live(int(os.environ.get("TABGLOT_PORT", "8000"))))
