"""The yardstick for serving: a FastAPI route that reads the raw body and answers a constant with orjson.

Run as ``python -m training.bench.constant_route PORT``, on uvicorn as it comes (uvloop, httptools).
"""

import sys

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

ANSWER = {
    "model": "cars@1",
    "target": "mpg",
    "kind": "numeric",
    "predictions": [{"value": 14.9, "median": 15.0, "interval": [12.1, 18.0]}],
    "warnings": [],
}

app = FastAPI()


@app.post("/predict")
async def predict(request: Request) -> Response:
    """As little as a route can do."""
    await request.body()
    return Response(orjson.dumps(ANSWER), media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="warning")
