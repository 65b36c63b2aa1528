// The operations under /api/alerts, with the visitor's key.
import { call, key } from "../server.js";

/** The response of an alert endpoint. Throws ApiError. */
export const ask = async (method, path, body) => (await call("defense", `/api/alerts${path}`, { method, body, bearer: key.get() })).members;
